"""Time, memory and cost of a comparison before anybody pays for it."""
