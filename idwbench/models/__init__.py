"""Models: prototype networks, their initialisation, files and patches."""
