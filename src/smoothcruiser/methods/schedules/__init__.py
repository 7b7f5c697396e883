"""Methods that follow a schedule, from the request to the run."""
