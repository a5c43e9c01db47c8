"""The example of the page of the dual form runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "dual_form.md"


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
