"""Explanations: what in its memory a model attends to when it answers one input."""
