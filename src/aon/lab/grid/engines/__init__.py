"""Engines that execute runs: processes of this machine, or a Ray cluster."""
