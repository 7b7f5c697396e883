"""States: one codec of 8-byte words, one table, JSON, copies and identity."""
