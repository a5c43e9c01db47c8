"""Models: prototype networks, how they begin, their files, and their repair by one prototype."""
