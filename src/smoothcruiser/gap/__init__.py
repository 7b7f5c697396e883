"""Two-sided limits on V from paths, and on the worth of a policy."""
