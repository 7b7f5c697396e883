"""What runs a schedule: engines, the pools that feed them, shards, stores and
the answer.
"""
