"""What a sweep file says, the plan of its runs, and one line for each error: file, line, column and key."""

import json

import pytest
from case_tables import case_table
from sklearn.model_selection import ParameterGrid
from sweep_specs import GOOD, error_of, grid_text, read_text, sweep_file, sweep_text

from idwbench import Results, run_config, run_sweep
from idwbench.data import loading
from idwbench.errors import ConfigError
from idwbench.runs.datasets import DigitsConfig, TwoMoonsConfig
from idwbench.runs.protocol import DEFAULT_PROTOCOLS
from idwbench.sweep import yaml_source
from idwbench.sweep.spec import plan, read_sweep


def test_comments_aliases_and_the_line_ends_of_other_systems_do_no_harm(tmp_path):
    text = "# a\nname: x # b\n# c\ndataset: two_moons\nseeds: [ # d\n 1, # e\n # f\n 4294967295\n]\ngrid: # g\n"
    text += "  # h\n  - method: idw # i\n\n    # j\n    prototypes: &p # k\n      - 2 # l\n      # m\n# n\n"
    text += "  - {method: gaussian, prototypes: *p}\n"
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    spec = read_sweep(file)
    assert spec.seeds == (1, 2**32 - 1)
    assert {model.prototypes for model, _ in spec.settings} == {2} and len(spec.settings) > 1


def test_the_dialect_is_yaml_1_2(tmp_path):
    for name in ("yes", "2024-01-31", "=", "'<<'", "0o9", "1e"):
        assert read_text(tmp_path, GOOD.replace("name: small", f"name: {name}")).name == name.strip("'")
    for rate in ("1e-3", "1.0e-3", "1E-3", "+.001", "0.001_0"):
        assert read_text(tmp_path, GOOD.replace("1e-3}", f"{rate}}}", 1)).datasets[0][1].learning_rate == 1e-3


def changeable(folder):
    blocks = "{method: neg_dist, prototypes: [2, 16], learning_rate: [0.01, 0.1]}", "{method: idw, prototypes: 4}"
    return sweep_file(folder, "{name: two_moons, noise: 0.2}", *blocks, protocol="{epochs: 5}", seeds="3")


def test_changes_are_made_where_the_file_has_their_name_and_the_source_is_a_file_of_the_same_plan(tmp_path):
    file = changeable(tmp_path)
    changes = {"seeds": [7], "epochs": 2, "prototypes": 8, "learning_rate": 0.5, "dataset.noise": 0.1, "name": "quick"}
    spec = read_sweep(file, {**changes, "protocol.batch_size": 4})
    assert (spec.name, spec.seeds, spec.datasets[0][0].noise) == ("quick", (7,), 0.1)
    found = [(model.method, model.prototypes, protocol.learning_rate) for model, (protocol,) in spec.settings]
    # Of the axis only where it is one.
    assert found == [("neg_dist", 8, 0.5), ("idw", 8, spec.datasets[0][1].learning_rate)]
    assert (spec.datasets[0][1].epochs, spec.datasets[0][1].batch_size) == (2, 4)
    assert plan(read_text(tmp_path, spec.source)) == plan(spec)
    other = read_sweep(changeable(tmp_path), {"dataset": "digits", "protocol": {"epochs": 1}})
    assert other.datasets == ((DigitsConfig(), DEFAULT_PROTOCOLS["digits"].model_copy(update={"epochs": 1})),)
    file = changeable(tmp_path)
    assert run_sweep(file, tmp_path / "r.db", changes={"seeds": 1, "epochs": 1, "prototypes": 2}).complete == 3
    with pytest.raises(ConfigError, match="changes: only a file can be changed"):
        run_sweep(spec, tmp_path / "r.db", changes={"seeds": 1})


@pytest.mark.parametrize(("changes", "message"), case_table("wrong_sweeps")["changes"])
def test_a_change_that_the_file_cannot_have_is_one_line(tmp_path, changes, message):
    with pytest.raises(ConfigError) as error:
        read_sweep(changeable(tmp_path), changes)
    assert str(error.value).startswith(f"changes: {message}") and type(error.value) is ConfigError


def test_a_change_of_what_a_file_has_not_names_each_of_its_settings_once(tmp_path):
    with pytest.raises(ConfigError, match="'noise'") as error:  # of which learning_rate is an axis and of the protocol
        read_sweep(changeable(tmp_path), {"noise": 3})
    words = error.value.hint.partition(": ")[2].split(", ")
    assert "learning_rate" in words and len(words) == len({*words})


GRID = "{method: [idw, gaussian], prototypes: 2}"
TINY = "test_per_class: 2, holdout_per_class: 0"


def test_a_mapping_stands_for_the_product_of_its_lists_in_any_list_of_data_sets_each_once(tmp_path):
    data = "[digits, {name: two_moons, train_per_class: [8, 4], noise: [0.2, 0.1]}, two_moons, digits]"
    spec = read_sweep(sweep_file(tmp_path, data, GRID))
    found = [(dataset.noise, dataset.train_per_class) for dataset, _ in spec.datasets[1:]]
    assert found == [(0.2, 8), (0.2, 4), (0.1, 8), (0.1, 4), (TwoMoonsConfig().noise, 100)]
    assert spec.datasets[0][0] == DigitsConfig()
    sizes = [DEFAULT_PROTOCOLS[dataset.name].batch_size for dataset, _ in spec.datasets]
    assert [protocol.batch_size for _, protocol in spec.datasets] == sizes and len({*sizes}) == 2
    assert {protocol.epochs for _, protocol in spec.datasets} == {2}
    parts = "{name: joint, of: [mnist, fashion_mnist], seed: [0, 1]}"  # which are no axis
    joint = read_sweep(sweep_file(tmp_path, parts, GRID))
    assert [(d.of, d.seed) for d, _ in joint.datasets] == [(("mnist", "fashion_mnist"), seed) for seed in (0, 1)]


def test_each_data_set_is_loaded_once_and_only_if_runs_are_missing(tmp_path, monkeypatch):
    loaded, load = [], loading.load_dataset
    monkeypatch.setattr(loading, "load_dataset", lambda *given: loaded.append(given[0]) or load(*given))
    sizes = f"{{name: two_moons, train_per_class: [4, 6], {TINY}}}"
    db = tmp_path / "runs.db"
    assert run_sweep(sweep_file(tmp_path, sizes, "{method: idw, prototypes: 2}"), db).complete == 4
    assert [dataset.train_per_class for dataset in loaded] == [4, 6]
    loaded.clear()
    more = sizes.replace("[4, 6]", "[4, 6, 8]")
    assert run_sweep(sweep_file(tmp_path, more, "{method: idw, prototypes: 2}"), db).complete == 6
    assert [dataset.train_per_class for dataset in loaded] == [8]


def test_a_data_set_that_is_too_small_ends_the_sweep_and_keeps_what_was_trained(tmp_path):
    sizes = f"{{name: two_moons, train_per_class: [4, 1], {TINY}}}"
    block = "{method: idw, prototypes: 3, initialisation: samples}"
    with pytest.raises(ConfigError, match="expected at most 2"):
        run_sweep(sweep_file(tmp_path, sizes, block), tmp_path / "runs.db")
    assert {run.state for run in Results(tmp_path / "runs.db").find_runs()} == {"complete", "planned"}


def test_data_sets_are_outermost_then_cells_come_in_scikit_learns_order_with_seeds_innermost(tmp_path):
    axes = {"prototypes": [16, 2], "method": ["inv_dist", "idw"], "power": [2.0, 1.0], "momentum": [0, 0.9]}
    scalars = {"epsilon": 0.1, "optimizer": "sgd", "warmup_epochs": 8, "epochs": 9}  # are axes of length one
    data = "{name: two_moons, noise: [0.2, 0.1]}"
    planned = plan(read_sweep(sweep_file(tmp_path, data, json.dumps(axes | scalars), seeds="[5, 3]")))
    assert [run.run_key for run in planned] == [
        run_config({"name": "two_moons", "noise": noise}, seed=seed, **cell, **scalars).run_key
        for noise in (0.2, 0.1)
        for cell in ParameterGrid(axes)
        for seed in (5, 3)
    ]


def test_blocks_keep_their_order_and_a_shared_run_stays_at_its_first_place(tmp_path):
    wide = "{method: [idw, gaussian], prototypes: [2, 16]}"
    again = "{method: [neg_dist, idw], prototypes: 16, power: [2, 3]}"
    runs = plan(read_sweep(sweep_file(tmp_path, "two_moons", wide, again)))
    cells = [(run.model.method, run.model.prototypes, run.model.parameters.get("power")) for run in runs[::2]]
    first = [("idw", 2, 2.0), ("idw", 16, 2.0), ("gaussian", 2, None), ("gaussian", 16, None)]
    assert cells == [*first, ("neg_dist", 16, 2.0), ("neg_dist", 16, 3.0), ("idw", 16, 3.0)]
    assert len({run.run_key for run in runs}) == len(runs) == 14


TWO_MOONS = "expected one of: " + ", ".join(sorted(TwoMoonsConfig.model_fields))

MOONS = "{name: two_moons, train_per_class: 10, test_per_class: 8, holdout_per_class: 10, validation: 6}"
RANGE = "{method: idw, prototypes: {low: 2, high: 8}}"


def idw(axes, protocol=""):
    """Return a sweep with some axes, and some settings for all runs."""
    return grid_text(f"{{method: idw, prototypes: 4, {axes}}}") + f"protocol: {{{protocol}}}\n"


def search(objective="validation_accuracy", block=RANGE, data=MOONS, n="trials: 5"):
    return sweep_text(data, block, sampler=f"{{optuna: tpe, {n}, objective: {objective}}}")


TABLE = case_table("wrong_sweeps")
NO_TEXT = "input should be a valid string, unable to parse raw data as a unicode string"
# Of a good sweep, one text in place of another.
CHANGED = [
    *TABLE["changed"],
    ("2.5", "1" + "0" * 400, f"8:46: grid[1].power[1]: expected a finite number, got 1{'0' * 400}"),
    ("seeds: 3", 'seeds: 3\n"\\ud800": 1', f"1:1: {NO_TEXT}, got '\\ud800'"),
    ("2.5", "1" + "0" * 5000, f"8:46: cannot read '1{'0' * 39}'"),
    ("name: two_moons", "<<: {noise: 1}, name: two_moons", "3:11: dataset.<<: unknown key (" + TWO_MOONS + ")"),
]
NO_SWEEPS = [*TABLE["texts"], ("[" * 1_000, "1:1: nested too deeply")]
# What each kind of run refuses is tested with its settings; here the place in the file, and what needs a sweep.
REFUSED = [
    (grid_text("{zzz: 1}"), "grid.zzz: unknown key (the nearest valid words: optimizer, batch_size, l2_"),
    *((sweep_text(data, block), message) for data, block, message in TABLE["blocks"]),
    *((idw(axes, protocol), message) for axes, protocol, message in TABLE["axes"]),
    *((search(**given), message) for given, message in TABLE["searches"]),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_an_error_names_the_data_set_the_block_the_key_and_the_value(tmp_path, text, expected):
    message = error_of(tmp_path, text)
    assert message.startswith(expected) if expected[0].isdigit() else expected in message


@pytest.mark.parametrize(("old", "new", "expected"), CHANGED)
def test_an_error_names_line_column_and_key(tmp_path, old, new, expected):
    assert GOOD.count(old) >= 1
    assert error_of(tmp_path, GOOD.replace(old, new, 1)) == expected


@pytest.mark.parametrize(("text", "expected"), NO_SWEEPS)
def test_a_file_that_is_no_sweep_is_one_line(tmp_path, text, expected):
    assert error_of(tmp_path, text) == expected


def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(yaml_source, "_MAX_VALUES", 2_000)
    levels = ["a: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    levels += [f"b{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 10)]
    assert "more than 2,000 values" in error_of(tmp_path, "\n".join(levels))
    twice = "\n".join([*levels, "b9: *l9"])
    assert error_of(tmp_path, twice) == "11:1: the key 'b9' is already in line 10"
