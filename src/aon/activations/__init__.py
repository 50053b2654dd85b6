"""Normalisation of activations that torch lacks."""
