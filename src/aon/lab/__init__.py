"""The laboratory: train networks under several methods and compare them."""
