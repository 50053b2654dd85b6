"""Methods: their names and options, and how a network is prepared for one."""
