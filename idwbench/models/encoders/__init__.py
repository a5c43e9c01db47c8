"""Encoders: modules from inputs (batch, features) to learned features (batch, width)."""
