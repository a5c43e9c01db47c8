"""The plan of a sweep: which runs, in which order, each once; and several data sets, each loaded once."""

from pathlib import Path

import pytest
from sweep_specs import sweep_spec

from idwbench.data import loading
from idwbench.errors import ConfigError, SpecError
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.datasets import DigitsConfig, TwoMoonsConfig
from idwbench.runs.protocol import default_protocol
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.grid import Block
from idwbench.sweep.spec import SweepSpec, plan, read_sweep

TINY = "test_per_class: 2, holdout_per_class: 0"


@pytest.fixture
def write(tmp_path: Path):
    def write(dataset: str, grid: str = "{method: [idw, gaussian], prototypes: 2}") -> Path:
        path = tmp_path / "axes.yaml"
        path.write_text(f"name: axes\ndataset: {dataset}\nseeds: 2\nprotocol: {{epochs: 1}}\ngrid: {grid}\n")
        return path

    return write


def error_of(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        read_sweep(path)
    return str(caught.value).removeprefix(f"{path}:")


def test_a_mapping_stands_for_the_product_of_its_lists_in_any_list_of_data_sets_each_once(write):
    spec = read_sweep(
        write("[digits, {name: two_moons, train_per_class: [8, 4], noise: [0.2, 0.1]}, two_moons, digits]")
    )
    found = [(dataset.noise, dataset.train_per_class) for dataset, _ in spec.datasets[1:]]
    assert found == [(0.2, 8), (0.2, 4), (0.1, 8), (0.1, 4), (TwoMoonsConfig().noise, 100)]
    assert spec.datasets[0][0] == DigitsConfig()
    sizes = [default_protocol(dataset.name).batch_size for dataset, _ in spec.datasets]
    assert [protocol.batch_size for _, protocol in spec.datasets] == sizes and len({*sizes}) == 2
    assert {protocol.epochs for _, protocol in spec.datasets} == {1}
    joint = read_sweep(write("{name: joint, of: [mnist, fashion_mnist], seed: [0, 1]}"))  # the parts are no axis
    assert [(d.of, d.seed) for d, _ in joint.datasets] == [(("mnist", "fashion_mnist"), seed) for seed in (0, 1)]


def test_data_sets_are_outermost_and_the_runs_are_those_of_single_sweeps(write):
    runs = plan(read_sweep(write("{name: two_moons, noise: [0.2, 0.1]}")))
    expected = [
        run_config({"name": "two_moons", "noise": noise}, seed=seed, method=method, prototypes=2, epochs=1).run_key
        for noise in (0.2, 0.1)
        for method in ("idw", "gaussian")
        for seed in (0, 1)
    ]
    assert [run.run_key for run in runs] == expected


MANY = ", ".join(str(size) for size in range(1, 1001))


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("[]", "2:10: dataset: the list is empty, expected at least one data set"),
        ("{name: two_moons, noise: []}", "2:35: dataset.noise: the axis is empty, expected at least one value"),
        ("{name: two_moons, noise: [0.1, 0.1]}", "2:41: dataset.noise[1]: 0.1 is already in the axis, at [0]"),
        ("{name: two_moons, seed: [[1]]}", "2:35: dataset.seed[0]: input should be a valid integer, got [1]"),
        ("{name: two_moons, nose: [0.1]}", "2:28: dataset.nose: unknown key (did you mean 'noise'?)"),
        ("[digits, {name: two_moon}]", "2:26: dataset[1].name: unknown data set 'two_moon'"),
        ("[digits, {name: two_moons, noise: [0, x]}]", "2:48: dataset[1].noise[1]: input should be a valid number"),
        ("{name: joint, of: [mnist, fashion]}", "2:36: dataset.of[1]: unknown data set 'fashion' (did you mean"),
        ("[sine, {name: joint, of: [mnist, mnist]}]", "2:43: dataset[1].of[1]: mnist is already a part (expected"),
        (f"{{name: two_moons, seed: [{MANY}]}}", "5:7: grid: expected at most 1,000,000 runs, got 4,000,000"),
    ],
    ids=range(10),
)
def test_an_error_names_the_data_set_the_key_and_the_value(write, dataset, expected):
    grid = f"{{method: [idw, gaussian], prototypes: [{MANY}]}}" if MANY in dataset else "{method: idw, prototypes: 2}"
    found = error_of(write(dataset, grid))
    assert found.startswith(expected) and "\n" not in found


def test_each_data_set_is_loaded_once_and_only_if_runs_are_missing(write, tmp_path, monkeypatch):
    loaded, load = [], loading.load_dataset
    monkeypatch.setattr(loading, "load_dataset", lambda *given: loaded.append(given[0]) or load(*given))
    sizes = f"{{name: two_moons, train_per_class: [4, 6], {TINY}}}"
    db = tmp_path / "runs.db"
    assert run_sweep(write(sizes, "{method: idw, prototypes: 2}"), db).complete == 4
    assert [dataset.train_per_class for dataset in loaded] == [4, 6]
    loaded.clear()
    more = sizes.replace("[4, 6]", "[4, 6, 8]")
    assert run_sweep(write(more, "{method: idw, prototypes: 2}"), db).complete == 6
    assert [dataset.train_per_class for dataset in loaded] == [8]


def test_a_data_set_that_is_too_small_ends_the_sweep_and_keeps_what_was_trained(tmp_path):
    large, small = (TwoMoonsConfig(train_per_class=n, test_per_class=1, holdout_per_class=0) for n in (4, 1))
    block = {"method": "idw", "prototypes": 3, "initialisation": "samples", "epochs": 1}
    protocol = default_protocol("two_moons")
    spec = sweep_spec("sizes", (large, protocol), (small, protocol), grid=[block])
    with pytest.raises(ConfigError, match="expected at most 2"):
        run_sweep(spec, tmp_path / "runs.db")
    assert {run.state for run in Results(tmp_path / "runs.db").find_runs()} == {"complete", "planned"}


def sweep(*blocks: Block, seeds: tuple[int, ...] = (0, 1)) -> SweepSpec:
    grid = [{name: list(values) for name, values in block.items()} for block in blocks]
    return sweep_spec("test", (TwoMoonsConfig(), default_protocol("two_moons")), grid=grid, seeds=seeds)


@pytest.mark.slow
def test_cells_come_in_scikit_learns_order_with_seeds_innermost():
    from sklearn.model_selection import ParameterGrid

    axes = {"prototypes": (16, 2), "method": ("inv_dist", "idw"), "power": (2.0, 1.0), "epsilon": (0.1, 0.0)}
    axes["epochs"] = (3, 1)
    planned = [
        (*(run.model.method, run.model.prototypes), *run.model.parameters.values(), run.protocol.epochs, run.seed)
        for run in plan(sweep(axes, seeds=(5, 3)))
    ]
    names = ("method", "prototypes", "power", "epsilon", "epochs")
    grid = ParameterGrid({name: list(values) for name, values in axes.items()})
    assert planned == [(*(cell[name] for name in names), seed) for cell in grid for seed in (5, 3)]


def test_blocks_keep_their_order_and_a_shared_run_stays_at_its_first_place():
    wide = {"method": ("idw", "gaussian"), "prototypes": (2, 16)}
    again = {"method": ("neg_dist", "idw"), "prototypes": (16,), "power": (2.0, 3.0)}
    runs = plan(sweep(wide, again))
    cells = [(run.model.method, run.model.prototypes, run.model.parameters.get("power")) for run in runs[::2]]
    first = [("idw", 2, 2.0), ("idw", 16, 2.0), ("gaussian", 2, None), ("gaussian", 16, None)]
    assert cells == [*first, ("neg_dist", 16, 2.0), ("neg_dist", 16, 3.0), ("idw", 16, 3.0)]
    assert len({run.run_key for run in runs}) == len(runs) == 14
