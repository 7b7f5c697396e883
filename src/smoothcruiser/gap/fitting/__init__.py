"""A value W that is fitted where nobody passes one."""
