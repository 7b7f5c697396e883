"""Pages for a reader: in a terminal, in a notebook, as an HTML file."""
