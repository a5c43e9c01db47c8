"""Figures in a window, where there is a window system and an interactive backend of matplotlib."""

from __future__ import annotations

import io
import os
import sys

from matplotlib.figure import Figure

from idwbench.figures.style import PAPER, render_figure

__all__ = ["open_window", "window_backend"]

_DPI = 100


def window_backend() -> str | None:
    """Return the name of matplotlib's interactive backend if a window can be opened, or None.

    Matplotlib chooses the backend (``MPLBACKEND``, or the first that is installed) and checks the display on Linux. A
    login over SSH without a forwarded display has no window.
    """
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not has_display and (sys.platform.startswith("linux") or "SSH_CONNECTION" in os.environ):
        return None
    import matplotlib
    from matplotlib.backends.registry import BackendFilter, backend_registry

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

    drawn = io.BytesIO(render_figure(figure, ".png", 2 * _DPI))
    shown = plt.figure("idwbench", figsize=tuple(figure.get_size_inches()), dpi=_DPI, facecolor=PAPER)
    axes = shown.add_axes((0, 0, 1, 1))
    axes.imshow(plt.imread(drawn, format="png"))
    axes.set_axis_off()
    plt.show()
