"""Known models: tables, rows of outcomes, arrays as input."""
