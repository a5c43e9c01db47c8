from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[1] / "docs/attribution.md"


def test_the_example_of_the_page_prints_rows_with_the_label_of_the_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 1
    found: dict[str, object] = {}
    exec(blocks[0], found)
    top, answers = found["top"], found["answers"]
    assert isinstance(top, np.ndarray) and top.shape == (3, 5)
    labels = found["dataset"].train.labels  # type: ignore[attr-defined]
    assert (labels[top] == np.asarray(answers)[:, None]).mean() > 0.5
