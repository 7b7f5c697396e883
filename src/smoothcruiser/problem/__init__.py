"""What the user supplies: an oracle, an operator, a discount, a reward range."""
