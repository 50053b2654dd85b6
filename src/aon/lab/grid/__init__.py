"""Many runs: events, engines and comparison directories."""
