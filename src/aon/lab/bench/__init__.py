"""Benchmarks: measured to JSON first, shown and drawn from it afterwards."""
