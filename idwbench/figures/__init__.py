"""Figures, drawn without pyplot and styles."""
