"""Tree search, which answers at any time but promises nothing."""
