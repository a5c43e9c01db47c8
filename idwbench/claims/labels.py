"""Numbers of the table of claims as text."""

from __future__ import annotations

import math
from collections.abc import Collection

__all__ = ["interval_label", "mean_label", "number_label", "p_value_label"]

# Units that are written with two decimals, and whether with a sign, as differences are.
_DECIMAL_UNITS = {"points": True, "%": False}


def number_label(number: float | None, unit: str = "") -> str:
    """Return ``+0.86 points``, ``88.20 %``, or three significant digits without unit."""
    if number is None:
        return ""
    return f"{_plain(number, unit)} {unit}".rstrip()


def interval_label(interval: tuple[float, float] | None, unit: str = "") -> str:
    """Return ``[0.48, 1.31]``, or an empty text without an interval."""
    return "" if interval is None else f"[{', '.join(_plain(end, unit).removeprefix('+') for end in interval)}]"


def mean_label(values: Collection[float], *, sign: bool = False) -> str:
    """Return the mean with three significant digits, with `sign` as a difference."""
    return ("+" if sign and sum(values) > 0 else "") + _significant(sum(values) / len(values))


def p_value_label(p_value: float) -> str:
    """Return a p-value with two significant digits."""
    return f"{p_value:.2g}"


def _plain(number: float, unit: str) -> str:
    if unit not in _DECIMAL_UNITS:
        return _significant(number)
    return (f"{number:+.2f}" if _DECIMAL_UNITS[unit] else f"{number:.2f}").replace("-", "−")


def _significant(number: float) -> str:
    """Return three significant digits: ``0.0834``, ``−12.3``, ``2,540``, ``4.3e-15``."""
    if number and not 1e-4 <= abs(number) < 1e6:
        return f"{number:.2g}"
    digits = 2 - math.floor(math.log10(abs(number))) if number else 0
    text = f"{round(number, digits):,.{max(0, digits)}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")
