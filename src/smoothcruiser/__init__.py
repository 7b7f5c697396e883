"""Planning with a promise."""
__version__ = "0.1.0"
