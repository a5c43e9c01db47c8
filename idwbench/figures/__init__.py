"""Figures, drawn on given axes; nothing here imports pyplot or sets a style."""
