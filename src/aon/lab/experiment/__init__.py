"""Settings of runs, presets, plans of comparisons, and records of runs."""
