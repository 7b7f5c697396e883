"""The certified value of a policy."""
