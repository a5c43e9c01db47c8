import os
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from idwbench.errors import ConfigError
from idwbench.figures.style import clean_text, new_page, save_figure


def figure(text: str = "words") -> Figure:
    page, body = new_page(3, 2, ["a sentence"])
    body.subplots().set_title(text)
    return page


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_same_figure_gives_the_same_bytes(tmp_path: Path, suffix: str, magic: bytes) -> None:
    before = dict(matplotlib.rcParams)
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        save_figure(figure(), path, dpi=40)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(magic)
    assert {path.name for path in tmp_path.iterdir()} == {first.name, second.name}
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("name", "problem", "hint"),
    [
        ("a.pnj", "cannot write a figure as '.pnj'", "did you mean '.png'?"),
        ("none", "the file of a figure has no suffix", "expected .pdf, .png, .svg"),
    ],
)
def test_another_suffix_or_none_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str, problem: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        save_figure(Figure(), tmp_path / name)
    assert (caught.value.problem, caught.value.file, caught.value.hint) == (problem, str(tmp_path / name), hint)
    assert not list(tmp_path.iterdir())


def test_names_with_control_characters_dollars_and_letters_without_a_glyph_are_drawn_in_silence(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_figure(figure("bell \x07, \x1b[31m, \u202e, \udcff, $x_{, $y$, 数, \U0001f600"), tmp_path / "a.svg")
    assert not caught
    assert b"\x07" not in (tmp_path / "a.svg").read_bytes()
    assert clean_text("a\x07\x1b\u202e\udcff\nb, 数") == "a\ufffd\ufffd\ufffd\ufffd\nb, 数"


def test_a_wrong_time_of_the_build_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH: expected a whole number of seconds, got 'today'"):
        save_figure(figure(), tmp_path / "a.pdf")


def test_a_wrong_backend_is_refused_in_one_line() -> None:
    program = [sys.executable, "-m", "idwbench", "figure", "weights"]
    result = subprocess.run(program, env={**os.environ, "MPLBACKEND": "nope"}, capture_output=True, text=True)
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert "MPLBACKEND: Key backend: 'nope' is not a valid value" in result.stderr
