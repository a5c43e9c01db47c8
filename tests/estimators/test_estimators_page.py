"""The examples of the page on estimators, and those of the docstrings."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from idwbench.estimators import classifier, kernel_regressor, regressor

PAGE = Path(__file__).parents[2] / "docs/estimators.md"


@pytest.mark.slow
def test_the_examples_of_the_page_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(examples) >= 6
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "['first' 'second']" in printed and "\nTrue\n" in printed


def test_the_examples_of_the_docstrings_hold():
    for module in (classifier, regressor, kernel_regressor):
        result = doctest.testmod(module)
        assert (result.failed, result.attempted > 3) == (0, True)
