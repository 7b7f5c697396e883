"""The machines that play one path: interpreted, compiled, driven from Python."""
