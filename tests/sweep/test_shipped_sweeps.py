"""The sweeps that come with idwbench plan what they promise, and so do the examples in the docs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from idwbench.config import Protocol, TwoMoonsConfig, default_protocol
from idwbench.sweep.planner import plan
from idwbench.sweep.spec import read_sweep

ROOT = Path(__file__).parents[2]
SIX = {"fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist", "idw"}
RUNS = {"two_moons": 180, "two_moons_power": 200, "mnist": 6, "mnist_quick": 18, "digits": 35}


@pytest.mark.parametrize("file", sorted((ROOT / "sweeps").glob("*.yaml")), ids=lambda file: file.stem)
def test_a_shipped_sweep_is_short_and_plans_what_it_promises(file: Path) -> None:
    spec = read_sweep(file)
    assert spec.name == file.stem
    assert spec.description
    assert len(plan(spec)) == RUNS[file.stem]
    assert 10 <= len(spec.source.splitlines()) <= 25


def test_all_shipped_sweeps_are_known_here() -> None:
    assert {file.stem for file in (ROOT / "sweeps").glob("*.yaml")} == set(RUNS)


def test_two_moons_is_six_methods_by_three_sizes_by_ten_seeds() -> None:
    spec = read_sweep(ROOT / "sweeps/two_moons.yaml")
    cells = Counter((run.method, run.prototypes) for run in plan(spec))
    assert cells == {(method, size): 10 for method in SIX for size in (2, 16, 128)}
    assert spec.dataset == TwoMoonsConfig()
    assert spec.protocol == default_protocol("two_moons")


def test_two_moons_power_is_the_grid_of_power_and_epsilon() -> None:
    cells = {
        (run.parameters["power"], run.parameters["epsilon"])
        for run in plan(read_sweep(ROOT / "sweeps/two_moons_power.yaml"))
    }
    assert cells == {(power, epsilon) for power in (1, 2, 4, 8, 16) for epsilon in (1e-3, 1e-2, 1e-1, 1)}


def test_mnist_is_table_1_by_the_papers_protocol() -> None:
    runs = plan(read_sweep(ROOT / "sweeps/mnist.yaml"))
    assert {run.method for run in runs} == SIX
    assert {run.prototypes for run in runs} == {20}
    assert {run.protocol.batch_size for run in runs} == {4}
    assert all(run.protocol == Protocol(epochs=50, batch_size=4, learning_rate=0.001) for run in runs)


def test_a_run_of_two_sweeps_has_one_key() -> None:
    keys = [
        {run.run_key for run in plan(read_sweep(ROOT / f"sweeps/{name}.yaml"))}
        for name in ("two_moons", "two_moons_power")
    ]
    assert len(keys[0] & keys[1]) == 10


def test_the_examples_in_the_docs_are_good_sweeps(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        file = tmp_path / "example.yaml"
        file.write_text(block, encoding="utf-8")
        assert len(plan(read_sweep(file))) == 180


def test_the_docs_name_every_setting() -> None:
    text = (ROOT / "docs/sweeps.md").read_text(encoding="utf-8")
    for name in (*Protocol.model_fields, *TwoMoonsConfig.model_fields):
        assert f"`{name}`" in text, name
