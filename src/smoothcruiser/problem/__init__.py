"""What the user brings: an oracle, a smooth operator, a discount, a range of
rewards.
"""
