"""Engines that run schedules without a compiler: reference, plain Python, batched."""
