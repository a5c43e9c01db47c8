"""Small pictures as PNG files within the page, by Pillow."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from idwbench.figures.plane import Extent, Points
from idwbench.figures.style import class_colour
from idwbench.figures.tiles import KEY_COLOURS, scale_limit

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["image_picture", "key_picture", "plane_picture"]

_LEVELS = 31  # colours of a key: few, so that the files are small
_GREYS = 16
_WIDTH = 360  # pixels of a picture of the plane
_STRENGTH = 0.34  # of the colours of regions


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


def plane_picture(
    probability: NDArray[np.floating],
    extent: Extent,
    train: Points,
    keys: NDArray[np.floating],
    values: NDArray[np.floating],
    point: tuple[float, float],
    label: int,
) -> str:
    """Return the regions of two classes in the plane with training points, keys (diamonds) and a patch (star).

    `probability` is that of class 1 at the middles of a grid over `extent`, first row lowest.
    """
    from PIL import Image, ImageDraw

    left, right, bottom, top = extent
    height = round(_WIDTH * (top - bottom) / (right - left))
    picture = Image.fromarray(_regions(np.asarray(probability, np.float64)[::-1])).resize((_WIDTH, height))
    draw = ImageDraw.Draw(picture)

    def place(x: float, y: float) -> tuple[float, float]:
        return (x - left) / (right - left) * _WIDTH, (top - y) / (top - bottom) * height

    for (x, y), of_class in zip(train.inputs, train.labels, strict=True):
        _polygon(draw, place(float(x), float(y)), 1.8, 8, class_colour(int(of_class)))
    sizes = np.abs(values).max(axis=1)
    for (x, y), value, size in zip(keys, values, sizes, strict=True):
        radius = 3 + 4 * float(size / sizes.max()) if sizes.max() > 0 else 3
        _polygon(draw, place(float(x), float(y)), radius, 4, class_colour(int(value.argmax())), outline="#1F2933")
    _star(draw, place(*point), 12, class_colour(label))
    return _encoded(picture.quantize(64))


def _regions(probability: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return colours from that of class 0 over white to that of class 1."""
    first, second = (np.array(to_rgb(class_colour(number))) for number in (0, 1))
    share = np.abs(2 * probability - 1)[..., None] * _STRENGTH
    colour = np.where(probability[..., None] > 0.5, second, first)
    return np.asarray(np.rint(255 * (1 - share * (1 - colour))), np.uint8)


def _polygon(
    draw: object, middle: tuple[float, float], radius: float, corners: int, colour: str, outline: str | None = None
) -> None:
    angles = 2 * np.pi * np.arange(corners) / corners
    points = [(middle[0] + radius * float(np.cos(a)), middle[1] + radius * float(np.sin(a))) for a in angles]
    draw.polygon(points, fill=colour, outline=outline)  # type: ignore[attr-defined]  # of Pillow


def _star(draw: object, middle: tuple[float, float], radius: float, colour: str) -> None:
    angles = np.pi * np.arange(10) / 5 - np.pi / 2
    sizes = np.where(np.arange(10) % 2 == 0, radius, 0.45 * radius)
    points = [
        (middle[0] + float(size * np.cos(a)), middle[1] + float(size * np.sin(a)))
        for a, size in zip(angles, sizes, strict=True)
    ]
    draw.polygon(points, fill=colour, outline="#1F2933", width=2)  # type: ignore[attr-defined]  # of Pillow


def _with_palette(levels: NDArray[np.uint8], palette: NDArray[np.floating]) -> str:
    from PIL import Image

    picture = Image.frombytes("P", levels.shape[::-1], np.ascontiguousarray(levels).tobytes())
    picture.putpalette(np.rint(255 * palette).astype(np.uint8).tobytes())
    return _encoded(picture)


def _encoded(picture: Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
