"""The smooth operators: what replaces the maximum over actions."""
