"""The plan of a sweep: which runs, in which order, each once."""

from __future__ import annotations

import pytest
from sweep_specs import sweep_spec

from idwbench.runs.config import run_config
from idwbench.runs.datasets import TwoMoonsConfig
from idwbench.runs.protocol import default_protocol
from idwbench.sweep import grid
from idwbench.sweep.grid import Block
from idwbench.sweep.spec import SweepSpec, plan, read_sweep


def sweep(*blocks: Block, seeds: tuple[int, ...] = (0, 1)) -> SweepSpec:
    grid = [{name: list(values) for name, values in block.items()} for block in blocks]
    return sweep_spec("test", (TwoMoonsConfig(), default_protocol("two_moons")), grid=grid, seeds=seeds)


@pytest.mark.slow
def test_cells_come_in_scikit_learns_order_with_seeds_innermost() -> None:
    from sklearn.model_selection import ParameterGrid

    axes = {
        "prototypes": (16, 2),
        "method": ("inv_dist", "idw"),
        "power": (2.0, 1.0),
        "epsilon": (0.1, 0.0),
        "epochs": (3, 1),
    }
    planned = [
        (*(run.model.method, run.model.prototypes), *run.model.parameters.values(), run.protocol.epochs, run.seed)
        for run in plan(sweep(axes, seeds=(5, 3)))
    ]
    names = ("method", "prototypes", "power", "epsilon", "epochs")
    grid = ParameterGrid({name: list(values) for name, values in axes.items()})
    assert planned == [(*(cell[name] for name in names), seed) for cell in grid for seed in (5, 3)]


def test_a_planned_run_is_the_run_of_the_same_settings() -> None:
    spec = sweep({"method": ("idw",), "prototypes": (4,), "power": (3.0,), "learning_rate": (0.5,)}, seeds=(1, 9))
    expected = run_config("two_moons", seed=9, method="idw", prototypes=4, power=3, learning_rate=0.5)
    assert plan(spec)[1] == expected
    assert plan(spec)[1].run_key == expected.run_key


def test_blocks_keep_their_order_and_a_shared_run_stays_at_its_first_place() -> None:
    wide = {"method": ("idw", "gaussian"), "prototypes": (2, 16)}
    again = {"method": ("neg_dist", "idw"), "prototypes": (16,), "power": (2.0, 3.0)}
    runs = plan(sweep(wide, again))
    cells = [
        (run.model.method, run.model.prototypes, run.model.parameters.get("power")) for run in runs if run.seed == 0
    ]
    assert cells == [
        ("idw", 2, 2.0),
        ("idw", 16, 2.0),
        ("gaussian", 2, None),
        ("gaussian", 16, None),
        ("neg_dist", 16, 2.0),
        ("neg_dist", 16, 3.0),
        ("idw", 16, 3.0),
    ]
    assert len({run.run_key for run in runs}) == len(runs) == 14


def test_each_setting_is_parsed_once_when_a_file_is_read_and_its_runs_are_planned(tmp_path, monkeypatch):
    parsed = []
    for name in ("parse_model", "parse_protocol"):
        parse = getattr(grid, name)
        monkeypatch.setattr(grid, name, lambda *given, parse=parse: parsed.append(given[0]) or parse(*given))
    file = tmp_path / "sweep.yaml"
    axes = "{method: [idw, inv_dist], prototypes: [2, 4], epochs: [1, 2, 3]}"
    file.write_text(f"name: test\ndataset: [two_moons, iris]\nseeds: 2\ngrid: {axes}\n")
    assert len(plan(read_sweep(file))) == 2 * 2 * 2 * 3 * 2
    # Four models for all data sets; three numbers of epochs for the protocol of each.
    assert len(parsed) == 4 + 3 * 2
