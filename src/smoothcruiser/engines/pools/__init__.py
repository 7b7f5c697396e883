"""Tasks over threads, processes and clusters."""
