import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from idwbench.figures.collected.weights import weights_figure
from idwbench.figures.terminal import TerminalFigure, half_blocks
from idwbench.figures.window import open_window, window_backend


def test_two_rows_of_pixels_are_a_line_of_half_blocks() -> None:
    red, blue = (255, 0, 0), (0, 0, 255)
    pixels = np.array([[red, red, blue], [blue, blue, red]], np.uint8)
    segments = list(half_blocks(pixels))
    assert [segment.text for segment in segments] == ["▀▀", "▀", "\n"]
    first, second = (segment.style for segment in segments[:2])
    assert first is not None and second is not None
    assert first.color == second.bgcolor and first.bgcolor == second.color
    assert first.color is not None and first.color.triplet == red


def test_a_figure_is_as_wide_as_the_terminal_and_its_legend_can_be_read() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=60, force_terminal=True, color_system="truecolor", highlight=False)
    console.print(TerminalFigure(weights_figure().figure))
    plain = Console(file=io.StringIO(), width=60)
    lines = plain.render_lines(TerminalFigure(weights_figure().figure), pad=False)
    image = [line for line in ("".join(part.text for part in line) for line in lines) if set(line) == {"▀"}]
    assert {len(line) for line in image} == {60}
    assert 15 < len(image) < 30
    assert "\x1b[38;2;255;255;255;48;2;255;255;255m" in stream.getvalue()
    assert "idw:  −log(ε + d²)" in stream.getvalue()


@pytest.fixture
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND"):
        monkeypatch.delenv(name, raising=False)


def test_there_is_no_window_without_a_display(no_display, monkeypatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert window_backend() is None
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4")
    assert window_backend() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "loads", "found"), [("agg", True, None), ("QtAgg", True, "QtAgg"), ("QtAgg", False, None)]
)
def test_a_window_needs_an_interactive_backend_that_loads(no_display, monkeypatch, backend, loads, found) -> None:
    import matplotlib.pyplot as plt

    def switch(name: str) -> None:
        if not loads:
            raise ImportError("Cannot load backend")

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(matplotlib, "get_backend", lambda: backend)
    monkeypatch.setattr(plt, "switch_backend", switch)
    assert window_backend() == found


@pytest.mark.slow
def test_a_window_shows_the_picture_and_waits(monkeypatch) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    shown: list[Figure] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    open_window(Figure(figsize=(2, 1)))
    (image,) = shown[0].axes[0].images
    assert np.asarray(image.get_array()).shape[:2] == (200, 400)
    plt.close("all")
