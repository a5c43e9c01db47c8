"""What a sweep refuses once its data is loaded, before the first run is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from idwbench.errors import ConfigError
from idwbench.results.store import Results
from idwbench.runs.datasets import TwoMoonsConfig
from idwbench.runs.protocol import Protocol
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.spec import SweepSpec


@pytest.mark.parametrize("initialisation", ["samples", "kmeans"])
def test_more_prototypes_than_training_inputs_are_refused_before_any_run(tmp_path: Path, initialisation: str) -> None:
    data = TwoMoonsConfig(train_per_class=2, test_per_class=1, holdout_per_class=0)
    block = {"method": ("idw",), "prototypes": (2, 5), "initialisation": (initialisation,)}
    spec = SweepSpec("test", "", data, Protocol(epochs=1, batch_size=2, learning_rate=0.1), (0,), (block,))
    with pytest.raises(ConfigError, match=r"^prototypes: expected at most 4, the number of .*, got 5$"):
        run_sweep(spec, tmp_path / "runs.db")
    assert [run.state for run in Results(tmp_path / "runs.db").find_runs()] == ["planned", "planned"]
