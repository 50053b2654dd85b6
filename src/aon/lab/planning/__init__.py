"""Predict time, memory and cost of a comparison."""
