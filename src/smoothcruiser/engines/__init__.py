"""Everything that runs a schedule: engines, pools, shards, stores and the answer."""
