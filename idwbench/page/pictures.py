"""Pictures as files within the page: PNG by Pillow, and the SVG of figures."""

from __future__ import annotations

import base64
import io

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.figures.style import render_figure
from idwbench.figures.tiles import KEY_COLOURS, scale_limit

__all__ = ["image_picture", "key_picture", "svg_picture"]

_LEVELS = 31  # colours of a key: few, so that the files are small
_GREYS = 16
_DPI = 72  # of the predictions in the plane


def key_picture(key: NDArray[np.floating]) -> str:
    """Return a key (height, width) in its own scale: white is 0, black positive, blue negative."""
    exact = np.asarray(key, np.float64)
    share = np.clip(exact / scale_limit(exact), -1, 1)
    levels = np.rint((share + 1) / 2 * (_LEVELS - 1)).astype(np.uint8)
    palette = KEY_COLOURS(np.linspace(0, 1, _LEVELS))[:, :3]
    palette[_LEVELS // 2] = 1  # the colour map has no entry for its very middle
    return _with_palette(levels, palette)


def image_picture(image: NDArray[np.floating]) -> str:
    """Return an image (height, width) in shades of grey: white is its lowest value, black its highest."""
    exact = np.asarray(image, np.float64)
    low, high = float(exact.min()), float(exact.max())
    share = (exact - low) / (high - low) if high > low else np.zeros_like(exact)
    grey = np.linspace(1, 0, _GREYS)[:, None] * np.ones(3)
    return _with_palette(np.rint(share * (_GREYS - 1)).astype(np.uint8), grey)


def svg_picture(figure: Figure) -> str:
    """Return a figure as SVG."""
    return "data:image/svg+xml;base64," + base64.b64encode(render_figure(figure, ".svg", _DPI)).decode()


def _with_palette(levels: NDArray[np.uint8], palette: NDArray[np.floating]) -> str:
    from PIL import Image

    picture = Image.frombytes("P", levels.shape[::-1], np.ascontiguousarray(levels).tobytes())
    picture.putpalette(np.rint(255 * palette).astype(np.uint8).tobytes())
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
