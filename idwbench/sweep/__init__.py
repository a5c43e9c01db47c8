"""Sweeps: a YAML file, the ordered plan of runs it stands for, and the runner that does what is missing."""
