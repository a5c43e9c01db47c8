"""Data sets: one loader a file, all giving a `Dataset` of scaled arrays."""
