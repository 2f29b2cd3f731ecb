"""Measurements of time and memory, for people to read. No test depends on them."""
