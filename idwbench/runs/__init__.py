"""Runs: settings, run keys, metrics and results; does not load torch."""
