"""Sweeps: YAML files, their plans of runs, and the runner that trains missing runs."""
