"""Packages of the extras."""

from __future__ import annotations

from importlib.util import find_spec

from idwbench.errors import OutputError

__all__ = ["require"]


def require(package: str, extra: str) -> None:
    """Raise `OutputError` unless a package of an extra is installed."""
    if find_spec(package) is None:
        raise OutputError(f"needs the Python package '{package}'", hint=f"pip install 'idwbench[{extra}]'")
