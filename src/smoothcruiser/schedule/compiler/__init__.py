"""From a promise to the cheapest schedule that keeps it."""
