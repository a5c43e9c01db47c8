"""What all commands print by: lines, JSON, facts and tables."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console
from rich.text import Text

from idwbench.cli.display import Display
from idwbench.cli.output import echo_json, print_facts, print_line, print_table


@pytest.fixture
def terminal(monkeypatch):
    """Stand in for a terminal of 40 columns."""
    monkeypatch.setattr("idwbench.cli.output.terminal_width", lambda *, err=False: 40)


def test_json_has_null_for_numbers_that_are_not_finite(capsys):
    echo_json({"values": [1.5, math.nan, (math.inf, {"low": -math.inf})], "name": "ε \x1b\x7f\u202e"})
    text = capsys.readouterr().out
    assert json.loads(text, parse_constant=pytest.fail) == {
        "values": [1.5, None, [None, {"low": None}]],
        "name": "ε \x1b\x7f\u202e",
    }
    assert text.strip().isprintable()


def test_lines_of_a_terminal_are_broken_between_words(terminal, capsys):
    words = "[12/60] idw · 16 prototypes · learning rate 0.0123: test accuracy 97.51 ± 0.42 % (5 of 5 seeds)"
    print_line(words)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == words


def test_a_pipe_has_no_width(capsys):
    print_line("word " * 60)
    print_facts({"name": "word " * 60})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_facts_are_two_columns_without_what_is_empty(terminal, capsys):
    print_facts({"name": 0, "nothing": None, "empty": "", "a long\nname": f"{'word ' * 8}\x1b"}, indent=2)
    assert capsys.readouterr().out.splitlines() == [
        r"  name          0",
        r"  a long\nname  word word word word word",
        r"                word word word \x1b",
    ]


def test_a_table_wraps_texts_and_breaks_no_number(terminal, capsys):
    columns = {"source": ["mnist:train:12 of the second task"], "weight": ["0.12345"], "step": ["1,234"]}
    print_table(columns, texts=["source"])
    words = capsys.readouterr().out.split()
    for word in ("source", "weight", "step", "mnist:train:12", "0.12345", "1,234", "second"):
        assert word in words


@pytest.mark.parametrize(("width", "bar"), [(80, 20), (200, 40)])
def test_bars_keep_their_width_and_long_labels_are_cut(monkeypatch, width, bar):
    monkeypatch.setenv("COLUMNS", str(width))
    display = Display(60)
    display.show_epoch("wine · idw · 16 prototypes · learning rate 0.01 · 12 runs" * 3, 12, 3000)
    display.progress.stop()
    stream = io.StringIO()
    terminal = Console(file=stream, width=width, force_terminal=True, color_system="standard")
    terminal.print(display.progress.get_renderable())
    runs, epochs = (Text.from_ansi(line).plain for line in stream.getvalue().splitlines())
    assert [sum(map(line.count, "━╸╺")) for line in (runs, epochs)] == [bar, bar]
    assert "…" in epochs and "12/3000" in epochs and max(len(runs), len(epochs)) <= width
