"""Normalise layers and models, inspect them, and fold them back."""
