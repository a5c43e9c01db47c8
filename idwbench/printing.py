"""Texts of files, names and errors as they may be printed: characters that control a terminal are escaped."""

from __future__ import annotations

__all__ = ["printable"]

# Line ends, tabs, spaces of other widths, and what joins or parts letters in some scripts.
_KEPT = "\n\t\u00a0\u200c\u200d\u202f\u3000"


def printable(text: str, kept: str = _KEPT) -> str:
    r"""Return a text whose control characters are escaped, such as ``\x1b``, or ``\u202e`` for a change of direction.

    The escapes from U+007F are valid in JSON too.

    Args:
        text: Any text.
        kept: Characters that are not escaped, though Python does not count them as printable.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char < " ":
        return repr(char)[1:-1]
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
