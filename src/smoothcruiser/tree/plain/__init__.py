"""Tree search in plain Python, for states and evaluators of any type."""
