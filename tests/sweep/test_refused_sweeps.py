"""A sweep file is checked completely before anything runs; each error is a line with file, line, column and key."""

import pytest
from sweep_specs import GOOD, error_of, grid_text, sweep_text

from idwbench.errors import SpecError
from idwbench.runs.datasets import TwoMoonsConfig
from idwbench.sweep import yaml_source
from idwbench.sweep.spec import read_sweep

DATA_ONLY = "a sweep file is data and runs no code"
NONE = " (it takes no parameters)"
ROWS = "expected a number of rows, or a fraction between 0 and 1"
STORABLE = "expected text without NUL and lone surrogates"
TWO_MOONS = "expected one of: " + ", ".join(sorted(TwoMoonsConfig.model_fields))

MOONS = "{name: two_moons, train_per_class: 10, test_per_class: 8, holdout_per_class: 10, validation: 6}"
IDW, RANGE = "{method: idw, prototypes: 2}", "{method: idw, prototypes: {low: 2, high: 8}}"
LOOKUP = "{name: lookup, items: 4, dimensions: 3, queries: 16, noise: 0.1}"
TEXT = "{name: text, path: own.txt}"
MANY = ", ".join(str(size) for size in range(1, 1001))


def idw(axes, protocol=""):
    """Return a sweep with some axes, and some settings for all runs."""
    return grid_text(f"{{method: idw, prototypes: 4, {axes}}}") + f"protocol: {{{protocol}}}\n"


def search(objective="validation_accuracy", block=RANGE, data=MOONS, n="trials: 5"):
    return sweep_text(data, block, sampler=f"{{optuna: tpe, {n}, objective: {objective}}}")


# Of the sweep above with one text in place of another.
CHANGED = [
    # unknown keys, at every level
    ("seeds: 3", "sedes: 3", "5:1: sedes: unknown key (did you mean 'seeds'?)"),
    ("noise", "nose", "3:28: dataset.nose: unknown key (did you mean 'noise'?)"),
    ("epochs", "epoch", "4:12: protocol.epoch: unknown key (did you mean 'epochs'?)"),
    ("{method: [fc", "{methd: [fc", "7:6: grid[0].methd: unknown key (did you mean 'method'?)"),
    # missing keys
    ("name: small\n", "", "1:1: 'name' is missing"),
    # unknown words
    ("method: idw", "method: iwd", "8:14: grid[1].method: unknown method 'iwd' (did you mean 'idw'?)"),
    # out of range
    ("2.5", "0", "8:46: grid[1].power[1]: must be > 0, got 0"),
    ("2.5", ".nan", "8:46: grid[1].power[1]: expected a finite number, got nan"),
    # a parameter that one of the block's methods does not take
    ("[2, 16]}", "[2, 16], power: [2]}", "7:64: grid[0].power[0]: method 'fc_relu' does not take 'power'" + NONE),
    # twice
    ("seeds: 3", "seeds: 3\nseeds: 4", "6:1: the key 'seeds' is already in line 5"),
    ("power: [1, 2.5]", "power: 1, power: 2", "8:45: the key 'power' is already in line 8"),
    ("[1, 2.5]", "[1, 1.0]", "8:46: grid[1].power[1]: 1.0 is already in the axis, at [0]"),
    ("seeds: 3", "seeds: [1, 2, 1]", "5:15: seeds[2]: seed 1 is already in the list, at [0]"),
    # empty
    ("[2, 16]", "[]", "7:47: grid[0].prototypes: the axis is empty, expected at least one value"),
    ("name: small", 'name: "a\\nb"', r"1:7: name: expected one line of text, got 'a\nb'"),
    ("name: small", 'name: "a\\0b"', f"1:7: name: {STORABLE}, got 'a\\x00b'"),
    ("A test", '"a\\ud800b"', f"2:14: description: {STORABLE}, got 'a\\ud800b'"),
    # of the wrong type
    ("seeds: 3", "seeds: true", "5:8: seeds: expected a count from 1 to 1,000,000, or a list of seeds, got True"),
    ("[2, 16]", "['16']", "7:48: grid[0].prototypes[0]: input should be a valid integer, got '16'"),
    ("method: idw", "method: [[idw]]", "8:15: grid[1].method[0]: expected the name of a method, got ['idw']"),
    ("{name: two_moons, noise: 0.2}", "7", "3:10: dataset: expected a name or a mapping, got 7"),
    ("{epochs: 5, learning_rate: 1e-3}", "fast", "4:11: protocol: expected a mapping, got 'fast'"),
    # too much
    ("seeds: 3", "seeds: 100001", "7:3: grid: expected at most 1,000,000 runs, got 1,000,010"),
    ("2.5", "1" + "0" * 400, f"8:46: grid[1].power[1]: expected a finite number, got 1{'0' * 400}"),
    ("2.5", "1" + "0" * 5000, f"8:46: cannot read '1{'0' * 39}'"),
    # not plain data
    ("name: small", "name: !!python/x:os.getcwd []", "1:7: the tag !!python/x:os.getcwd is refused: " + DATA_ONLY),
    ("2.5", "!!timestamp [1]", "8:46: expected a scalar node, but found sequence"),
    ("2.5", "!!set {a}", "8:46: the tag !!set is refused: a sweep file is data and runs no code"),
    ("name: two_moons", "<<: {noise: 1}, name: two_moons", "3:11: dataset.<<: unknown key (" + TWO_MOONS + ")"),
    ("noise: 0.2", "validation: 1.5", f"3:40: dataset.validation: {ROWS}, got 1.5"),
    # rules on several settings
    ("epochs: 5", "epochs: 5, momentum: 0.5", "4:33: protocol.momentum: needs optimizer sgd, not adam_amsgrad"),
]
NO_SWEEPS = [
    ("", "1:1: the file is empty"),
    ("a: [1\nb: 2\n", "2:2: not valid YAML: while parsing a flow sequence, expected ',' or ']', but got ':'"),
    ("a: b: c\n", "1:5: not valid YAML: mapping values are not allowed here"),
    ("a: *nowhere\n", "1:4: not valid YAML: found undefined alias 'nowhere'"),
    (
        "a: 1\n---\nb: 2\n",
        "2:1: not valid YAML: expected a single document in the stream, but found another document",
    ),
    ("a: 1\nb: \x00\n", "2:4: not valid YAML: unacceptable character #x0000: special characters are not allowed"),
    ("- &a\n  b: [*a]\n", "1:3: [0].b[0]: contains itself"),
    ("[" * 1_000, "1:1: nested too deeply"),
    (grid_text("[idw]"), "4:8: grid[0]: expected a mapping of axes, such as {method: [idw], prototypes: [16]}"),
]
# What each kind of run refuses is tested with its settings; here the place in the file, and what needs a sweep.
REFUSED = [
    (
        grid_text("{zzz: 1}"),
        "grid.zzz: unknown key (the nearest valid words: optimizer, batch_size, l2_regularization, width, weights)",
    ),
    # rules on several settings
    (idw("momentum: [0, 0.9]"), "4:50: grid.momentum[1]: needs optimizer sgd, not adam_amsgrad"),
    (idw("momentum: 0.9, optimizer: [sgd, adam]"), "grid.momentum: needs optimizer sgd, not adam"),
    (idw("optimizer: [sgd, adam]", "optimizer: sgd, momentum: 0.9"), "grid.optimizer[1]: needs optimizer sgd, not ad"),
    (idw("warmup_epochs: [0, 3, 9], epochs: 4"), "grid.warmup_epochs[2]: expected fewer than the 4 epochs, got 9"),
    (idw("batch_size: [1, 2], epochs: [9, 5]", "warmup_epochs: 6"), "grid.epochs[1]: expected fewer than the 5 epochs"),
    (idw("epochs: [1, true]"), "grid.epochs[1]: input should be a valid integer, got True"),
    # data sets
    (sweep_text("[]", IDW), "2:10: dataset: the list is empty, expected at least one data set"),
    (sweep_text("{name: two_moons, noise: []}", IDW), "2:35: dataset.noise: the axis is empty, expected at least one"),
    (sweep_text("{name: two_moons, noise: [0.1, 0.1]}", IDW), "2:41: dataset.noise[1]: 0.1 is already in the axis, at"),
    (sweep_text("{name: two_moons, seed: [[1]]}", IDW), "2:35: dataset.seed[0]: input should be a valid integer, got"),
    (sweep_text("{name: two_moons, nose: [0.1]}", IDW), "2:28: dataset.nose: unknown key (did you mean 'noise'?)"),
    (sweep_text("[digits, {name: two_moon}]", IDW), "2:26: dataset[1].name: unknown data set 'two_moon'"),
    (sweep_text("[digits, {name: two_moons, noise: [0, x]}]", IDW), "2:48: dataset[1].noise[1]: input should be a val"),
    (sweep_text("{name: joint, of: [mnist, fashion]}", IDW), "2:36: dataset.of[1]: unknown data set 'fashion' (did"),
    (sweep_text("[sine, {name: joint, of: [mnist, mnist]}]", IDW), "2:43: dataset[1].of[1]: mnist is already a part ("),
    (
        sweep_text(f"{{name: two_moons, seed: [{MANY}]}}", f"{{method: [idw, gaussian], prototypes: [{MANY}]}}"),
        "6:3: grid: expected at most 1,000,000 runs, got 4,000,000",
    ),
    # kinds
    (sweep_text(MOONS, "{kind: basline, method: kmeans}"), "6:12: grid[0].kind: unknown kind of model 'basline' (did"),
    (sweep_text(MOONS, "{kind: [baseline, 3], method: kmeans, prototypes: 3}"), "6:23: grid[0].kind[1]: unknown kind "),
    (sweep_text(MOONS, "{kind: baseline, method: kmeans, cases: wrong}"), "grid[0].cases: unknown key"),
    (sweep_text(MOONS, "{kind: patch_study, method: [idw, gaussian], prototypes: 3}"), "6:39: grid[0].method[1]: only"),
    (sweep_text(MOONS, "{kind: patch_study, method: idw, prototypes: 3, n_cases: 5}"), "grid[0].n_cases: only wrong i"),
    (sweep_text(MOONS, "{kind: kernel_regression, kernel: boxcar, bandwidth: [1, 0]}"), "bandwidth[1]: must be >= "),
    (sweep_text("digits", "{kind: patch_study, method: idw, prototypes: 2}"), "the special cases belong to the data"),
    (sweep_text(LOOKUP, "{kind: hash_table, similarity: idw, weighting: [softmax, top_k], k: 2}"), "6:73: grid[0].k: "),
    (sweep_text("[lookup, digits]", "{kind: hash_table, similarity: idw}"), "a hash table needs the data set lookup"),
    (sweep_text(TEXT, IDW), "own.txt is a text, which the kind"),
    (sweep_text("{name: text, path: own.txt, tokens: word}", "{kind: lstm_lm}"), "should be 'characters' or 'words'"),
    (sweep_text(TEXT.replace("}", ", tokens: words}"), "{kind: transformer_lm, method: idw}"), "transformer_lm predi"),
    # searches
    (search("test_accuracy"), "chooses by validation rows, not by test rows (did"),
    (search("accuracy"), "unknown objective 'accuracy' (did you mean 'valid"),
    (search("validation_rmse"), "rmse is a metric of regression"),
    (search(n="trails: 5"), "did you mean 'trials'?"),
    (search(data="two_moons"), "the data set has no validation rows (set validation"),
    (search(data="[digits, two_moons]"), "a search needs one data set, got 2"),
    (search(n="trials: 600000"), "at most 1,000,000 runs, got 1,200"),
    (search(block="{method: idw, prototypes: {low: 2}}"), "grid[0].prototypes: 'high' is missing"),
    (search(block="{method: idw, prototypes: {low: 8, high: 2}}"), "expected more than low (8), got 2"),
    (search(block="{method: idw, prototypes: {low: 0, high: 2}}"), "grid[0].prototypes.low: "),
    (search(block="{method: idw, prototypes: {low: 2, high: 2.5}}"), "grid[0].prototypes.high: "),
    (search(block="{kind: network, encoder: vit_tiny, heads: {low: 1, high: 1.5}, width: 4}"), "grid[0].heads.high: "),
    (search(block="{method: idw, prototypes: 4, power: {low: 0, high: 2, log: true}}"), "needs numbers above 0"),
    (search(block="{method: idw, power: {low: 1, high: 2, log: true, step: 1}}"), "no meaning with"),
    (sweep_text(MOONS, RANGE), "a range needs a sampler (list the values, or add a sampler)"),
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


def test_a_file_that_is_not_there_a_folder_and_other_bytes_are_one_line(tmp_path):
    missing, binary = tmp_path / "no.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"name: x\nseeds: \xff\xfe\n")
    for file, expected in [
        (missing, f"{missing}: no such file"),
        (tmp_path, f"{tmp_path}: is a folder, expected a file"),
        (binary, f"{binary}:2:8: not UTF-8 text"),
    ]:
        with pytest.raises(SpecError) as caught:
            read_sweep(file)
        assert str(caught.value) == expected
