"""Files, locks, signals, and the message for an unknown name."""
