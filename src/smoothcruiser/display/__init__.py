"""What a person reads: terminal pages, a progress bar, an HTML page."""
