"""Data sets: tables of those that are drawn or shipped, readers of files; each gives a `Dataset` of scaled arrays."""
