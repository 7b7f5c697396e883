"""The user's part: an oracle, an operator, a discount, a reward range."""
