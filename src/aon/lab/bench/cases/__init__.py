"""The measuring commands of `aon bench`, one file each."""
