"""The mathematics: constants and bounds, no sampling."""
