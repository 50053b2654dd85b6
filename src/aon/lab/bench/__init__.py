"""Benchmarks: measure to JSON, then print and draw from the JSON."""
