"""The laboratory: compare methods as the paper does."""
