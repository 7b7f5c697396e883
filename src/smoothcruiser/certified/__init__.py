"""Certified search: bounds on every state met, closed where the answer needs it."""
