"""Defaults that the command line and Python share."""

from __future__ import annotations

__all__ = ["DEFAULT_DATABASE"]

DEFAULT_DATABASE = "results/idwbench.db"
