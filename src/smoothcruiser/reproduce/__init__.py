"""The paper reproduced: its figures, its table, and the experiment it could not run."""
