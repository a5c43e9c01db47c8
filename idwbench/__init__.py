"""Prototype attention: an experiment runner, its result database, and the repair of models by one prototype."""

__version__ = "0.1.0"
