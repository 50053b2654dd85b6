"""Files, locks, signals, and checks of what a user gave."""
