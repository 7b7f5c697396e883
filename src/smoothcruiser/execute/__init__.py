"""Engines that run a schedule against an oracle."""
