"""`idwbench runs`: the stored runs."""

from __future__ import annotations

__all__ = ["SUBCOMMANDS", "runs"]

# Each is a function `runs_NAME` in the module of that name.
SUBCOMMANDS = ("list", "show", "watch", "diff", "rm", "export", "replay")


def runs() -> None:
    """List, show, watch, compare, remove, export and repeat the runs of a results database."""
