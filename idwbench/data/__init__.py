"""Data sets: one loader per file; each returns a `Dataset` of scaled arrays."""
