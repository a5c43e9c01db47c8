"""Colours and saving of figures."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from idwbench.errors import ConfigError, did_you_mean
from idwbench.files import write_file

__all__ = [
    "CLASS_COLOURS",
    "FIGURE_SUFFIXES",
    "INK",
    "PAPER",
    "QUIET",
    "RULE",
    "class_colour",
    "diverging",
    "fade",
    "save_figure",
]

# Okabe and Ito's palette for colour-blind readers, in part darkened.
CLASS_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B"),
    *("#56B4E9", "#8C2D04", "#54278F", "#737373", "#1B7837"),
)
INK = "#1F2933"
QUIET = "#66727F"
RULE = "#CBD2D9"
PAPER = "#FFFFFF"

FIGURE_SUFFIXES = (".pdf", ".png", ".svg")
# No dates and versions, so that the files are reproducible.
_METADATA: dict[str, dict[str, str | None]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
}


def class_colour(index: int) -> str:
    """Return the colour of a class; ten colours repeat."""
    return CLASS_COLOURS[index % len(CLASS_COLOURS)]


def fade(colour: str, strength: float) -> tuple[float, float, float]:
    """Return `colour` mixed with white, from strength 0 (white) to 1."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour))
    return (red, green, blue)


def diverging(name: str, low: str, middle: str, high: str) -> LinearSegmentedColormap:
    """Return a colour map from `low` over `middle` to `high`."""
    return LinearSegmentedColormap.from_list(name, [low, middle, high])


def save_figure(figure: Figure, path: Path, *, dpi: int = 160, overwrite: bool = False) -> None:
    """Write the figure atomically and reproducibly; the suffix .png, .svg or .pdf is the format.

    Raises:
        ConfigError: another suffix.
        OutputError: the file exists and may not be overwritten, or cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FIGURE_SUFFIXES:
        hint = did_you_mean(suffix, FIGURE_SUFFIXES)
        raise ConfigError(f"cannot write a figure as '{suffix}'", file=path, hint=hint)
    drawn = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "idwbench"}):
        figure.savefig(drawn, dpi=dpi, format=suffix[1:], facecolor=PAPER, metadata=_METADATA[suffix])
    write_file(path, drawn.getvalue(), overwrite=overwrite)
