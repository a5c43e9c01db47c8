"""`idwbench runs`: the stored runs."""

from __future__ import annotations

__all__ = ["SUBCOMMANDS", "runs"]

# Each is a function `runs_NAME` in the module of that name.
SUBCOMMANDS = ("list", "show", "watch", "diff", "tag", "note", "rm", "export", "replay")


def runs() -> None:
    """List, show, watch, compare, tag, remove, export and repeat the runs of a results database."""
