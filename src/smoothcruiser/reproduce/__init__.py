"""The paper reproduced: its figures, its table, and what it could not run."""
