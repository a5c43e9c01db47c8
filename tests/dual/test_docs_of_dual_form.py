"""The example of the page of the dual form runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "dual_form.md"


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "docs/dual_form.md", "exec"), names)
    said, holds, *_ = capsys.readouterr().out.splitlines()
    assert f"# {said}" in example
    assert holds == "True"
    totals, memory = names["totals"], names["memory"]
    assert np.allclose(totals.sum(1), memory.attention(names["queries"]).sum(1), rtol=1e-4)
    assert names["shares"].shape == (2, 4000)


def test_the_page_lists_every_file_of_a_recording(tmp_path: Path) -> None:
    from recorded import RecordedTraining

    from idwbench.runs.protocol import Protocol

    made = RecordedTraining(
        Protocol(epochs=1, batch_size=8, learning_rate=0.01), tmp_path / "run", record_dtype="float16", fold=True
    )
    made.run()
    page = PAGE.read_text(encoding="utf-8")
    for path in (tmp_path / "run").iterdir():
        assert f"`{re.sub('layer_[0-9]', 'LAYER', path.name)}`" in page
