from __future__ import annotations

import pytest

from idwbench.results.store import Results
from idwbench.sweep.execution import run_sweep

SWEEP = """\
name: small
dataset: {name: two_moons, train_per_class: 20, test_per_class: 10, holdout_per_class: 10}
protocol: {epochs: 3}
seeds: 1
grid:
  - {method: [idw, neg_dist], prototypes: 4, momentum: [0]}
  - {kind: kernel_regression, kernel: gaussian, bandwidth: [loo, 0.5]}
  - {kind: mlp, width: [3], depth: 1}
"""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Five runs of three kinds, and one that is planned only."""
    folder = tmp_path_factory.mktemp("trained")
    path = folder / "small.yaml"
    path.write_text(SWEEP)
    run_sweep(path, folder / "idwbench.db", jobs=1)
    results = Results(folder / "idwbench.db")
    config = results.find_runs()[0].config
    results.plan([config.model_copy(update={"seed": 7})])
    return results


@pytest.fixture
def keys(trained: Results) -> list[str]:
    return list(trained.to_frame()["run_key"])
