"""The style of figures: colours, text, pages with a caption and a legend, files, and windows on the screen."""

from __future__ import annotations

import base64
import html
import io
import os
import sys
import textwrap
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.registry import BackendFilter, backend_registry
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError, did_you_mean
from idwbench.files import write_file
from idwbench.report.labels import range_label
from idwbench.report.statistics import Statistic

__all__ = [
    "CLASS_COLOURS",
    "FIGURE_SUFFIXES",
    "INK",
    "PAPER",
    "QUIET",
    "RULE",
    "check_figure_path",
    "class_colour",
    "clean_text",
    "draw_frame",
    "label_columns",
    "method_colour",
    "new_page",
    "open_window",
    "percent_label",
    "picture_html",
    "render_figure",
    "save_figure",
    "seeds_label",
    "style_axes",
    "titled_parts",
    "window_backend",
    "write",
]

# Okabe and Ito's palette for colour-blind readers, in part darkened.
CLASS_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B"),
    *("#56B4E9", "#8C2D04", "#54278F", "#737373", "#1B7837"),
)
# The same palette in the order of the built-in methods: the last of them is blue.
_METHOD_COLOURS = ("#737373", "#CC79A7", "#B8860B", "#009E73", "#56B4E9", "#D55E00", "#0072B2", "#1F2933", "#54278F")
INK = "#1F2933"
QUIET = "#66727F"
RULE = "#CBD2D9"
PAPER = "#FFFFFF"
_MARGIN = 0.05  # inches around a page
_SMALL = 8.5  # points of captions and legends
_BOLD = 0.62  # mean width of a letter of a title, of its size
_WINDOW_DPI = 100
_FEW_WORDS = 10  # below an axis, up to which they are oblique

FIGURE_SUFFIXES = (".pdf", ".png", ".svg")
# No dates and versions, so that the files are reproducible.
_METADATA: dict[str, dict[str, str | None]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
}


def method_colour(name: str) -> str:
    """Return the colour of a method, the same in all figures; that of a method that is not registered is grey."""
    place = list(METHODS).index(name) if name in METHODS else 0
    return _METHOD_COLOURS[place % len(_METHOD_COLOURS)]


def percent_label(measured: Statistic) -> str:
    """Return ``97.5 ± 1.2`` for a fraction, in percent."""
    return " ± ".join(f"{100 * number:.1f}" for number in (measured.mean, measured.std) if number is not None)


def seeds_label(counts: Collection[int]) -> str:
    """Return ``10 seeds``, or ``3 to 10 seeds`` if the numbers of seeds differ."""
    return f"{range_label(counts)} seed{'s' if max(counts) > 1 else ''}"


def class_colour(index: int) -> str:
    """Return the colour of a class; ten colours repeat."""
    return CLASS_COLOURS[index % len(CLASS_COLOURS)]


def style_axes(axes: Axes, *, label_size: float = 8.5, has_grid: bool = True) -> None:
    """Draw axes on the left and at the bottom alone, with quiet labels and, if wanted, a grid below the data."""
    axes.tick_params(labelsize=label_size, colors=QUIET, which="both")
    if has_grid:
        axes.grid(True, color=RULE, linewidth=0.5, alpha=0.6)
        axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set(color=RULE, visible=side in ("left", "bottom"))


def label_columns(axes: Axes, words: Sequence[str]) -> None:
    """Write what each place on the horizontal axis stands for: obliquely, or upright if it is more than a few."""
    is_few = len(words) <= _FEW_WORDS
    axes.set_xticks(range(len(words)), words, fontsize=7.0 if is_few else 6.0)
    axes.tick_params(axis="x", rotation=30 if is_few else 90)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right" if is_few else "center")


class _Page(Figure):
    """A figure that a notebook shows."""

    def _repr_html_(self) -> str:
        return picture_html(self)


def draw_frame(axes: Axes) -> None:
    """Draw axes as a quiet frame without ticks."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=RULE, linewidth=0.8)


def write(axes: Axes, text: str, place: tuple[float, float], offset: tuple[float, float], **style: Any) -> Annotation:
    """Write text `offset` points from a place, which is in fractions of the axes unless ``xycoords`` says else."""
    return axes.annotate(text, place, offset, textcoords="offset points", **{"xycoords": "axes fraction", **style})


def new_page(
    width: float, height: float, caption: Sequence[str] = (), legend: Sequence[Line2D] = ()
) -> tuple[Figure, SubFigure]:
    """Return a figure, and the part of it above the caption, in which a figure's panels are drawn.

    Matplotlib's constrained layout gives titles and labels their room.

    Args:
        width: Of the figure, in inches.
        height: Of the panels with their titles and labels, in inches; the legend and the caption are added to it.
        caption: Sentences below the panels; each begins a line.
        legend: Marks of a legend between the panels and the caption.
    """
    characters = int(72 * width / (0.53 * _SMALL)) - 2
    lines = [line for sentence in filter(None, caption) for line in textwrap.wrap(sentence, characters)]
    longest = max((len(str(handle.get_label())) for handle in legend), default=0)
    columns = min(max(int(width / (0.5 + 0.07 * longest)), 1), max(len(legend), 1))
    height += 2 * _MARGIN + 0.2 * -(-len(legend) // columns) + 0.165 * len(lines)
    around = (_MARGIN / width, _MARGIN / height, 1 - 2 * _MARGIN / width, 1 - 2 * _MARGIN / height)
    figure = _Page(figsize=(width, height), facecolor=PAPER, layout=ConstrainedLayoutEngine(rect=around))
    figure.supxlabel("\n".join(lines), fontsize=_SMALL, color=QUIET, linespacing=1.3)
    body = figure.add_subfigure(figure.add_gridspec()[0])
    if legend:
        look: dict[str, Any] = {"frameon": False, "fontsize": _SMALL, "labelcolor": INK, "borderaxespad": 0}
        look |= {"handlelength": 2.4, "handletextpad": 0.5, "columnspacing": 1.4}
        body.legend(handles=legend, loc="outside lower center", ncols=columns, **look)
    return figure, body


def titled_parts(
    body: SubFigure, titles: Iterable[str], heights: Sequence[float] | None = None, **text: Any
) -> list[SubFigure]:
    """Return parts of a page below each other, each with its title; `heights` are in any unit, by default equal.

    A title that is longer than the page is wide is broken between words.
    """
    shown, look = [*titles], {"fontsize": 11, "weight": "bold", "color": INK, **text}
    characters = int(72 * body.get_figure(root=True).get_figwidth() / (_BOLD * look["fontsize"]))
    parts = body.subfigures(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, title in zip(parts, shown, strict=True):
        if title:
            part.suptitle(textwrap.fill(title, characters), x=0.01, ha="left", **look)
    return [*parts]


def clean_text(text: str) -> str:
    """Return a name that can be drawn: control characters, which have no glyph, are replaced, and it is no formula."""
    return "".join("\ufffd" if unicodedata.category(char)[0] == "C" and char != "\n" else char for char in text)


def check_figure_path(path: Path) -> None:
    """Raise `ConfigError` unless the suffix of `path` is .png, .svg or .pdf."""
    if (suffix := path.suffix.lower()) not in FIGURE_SUFFIXES:
        problem = f"cannot write a figure as '{suffix}'" if suffix else "the file of a figure has no suffix"
        hint = did_you_mean(suffix, FIGURE_SUFFIXES) if suffix else f"expected {', '.join(FIGURE_SUFFIXES)}"
        raise ConfigError(problem, file=path, hint=hint)


def render_figure(figure: Figure, suffix: str, dpi: float = 160) -> bytes:
    """Return the bytes of a figure in the format of a suffix, the same for the same figure.

    Names are cleaned, see `clean_text`. Matplotlib's warnings are silent: no user can do anything about a letter that
    its fonts lack.

    Raises:
        ConfigError: the environment variable ``SOURCE_DATE_EPOCH``, which matplotlib reads, is not a whole number.
    """
    if not (epoch := os.environ.get("SOURCE_DATE_EPOCH", "0")).strip().isdecimal():
        raise ConfigError(f"SOURCE_DATE_EPOCH: expected a whole number of seconds, got '{epoch}'")
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        cleaned = [clean_text(label) for label in labels]
        if cleaned != labels:
            axis.set_ticklabels(cleaned)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(clean_text(text.get_text()))
        text.set_parse_math(False)
    drawn = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "idwbench", "text.parse_math": False}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(drawn, dpi=dpi, format=suffix[1:], facecolor=PAPER, metadata=_METADATA[suffix])
    return drawn.getvalue()


def picture_html(figure: Figure, title: str = "figure") -> str:
    """Return an ``<img>`` with the figure."""
    encoded = base64.b64encode(render_figure(figure, ".png", 80)).decode()
    return f'<img alt="{html.escape(title)}" style="max-width: 100%" src="data:image/png;base64,{encoded}">'


def save_figure(figure: Figure, path: Path, *, dpi: int = 160, overwrite: bool = False) -> None:
    """Write the figure atomically and reproducibly; the suffix .png, .svg or .pdf is the format.

    Raises:
        ConfigError: another suffix, or see `render_figure`.
        OutputError: the file exists and may not be overwritten, or cannot be written.
    """
    check_figure_path(path)
    write_file(path, render_figure(figure, path.suffix.lower(), dpi), overwrite=overwrite)


def window_backend() -> str | None:
    """Return the name of matplotlib's interactive backend if a window can be opened, or None.

    Matplotlib chooses the backend (``MPLBACKEND``, or the first that is installed) and checks the display on Linux. A
    login over SSH without a forwarded display has no window.
    """
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not has_display and (sys.platform.startswith("linux") or "SSH_CONNECTION" in os.environ):
        return None
    try:
        import matplotlib.pyplot as plt

        name = matplotlib.get_backend()
        interactive = backend_registry.list_builtin(BackendFilter.INTERACTIVE)  # type: ignore[no-untyped-call]
        if name.lower() not in interactive:
            return None
        plt.switch_backend(name)
    except ImportError:  # the backend's package is missing, or it finds no display
        return None
    return name


def open_window(figure: Figure) -> None:
    """Show the figure as an image in a window, and wait until it is closed."""
    import matplotlib.pyplot as plt

    drawn = io.BytesIO(render_figure(figure, ".png", 2 * _WINDOW_DPI))
    shown = plt.figure("idwbench", figsize=tuple(figure.get_size_inches()), dpi=_WINDOW_DPI, facecolor=PAPER)
    axes = shown.add_axes((0, 0, 1, 1))
    axes.imshow(plt.imread(drawn, format="png"))
    axes.set_axis_off()
    plt.show()
