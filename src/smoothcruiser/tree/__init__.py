"""Tree search without a promise."""
