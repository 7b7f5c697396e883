"""Samplers: from pairs to rewards and next states, for every form of a state."""
