"""The certified value of a given policy."""
