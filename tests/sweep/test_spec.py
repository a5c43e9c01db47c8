"""A sweep file is checked completely before anything runs; each error says file, line, column and key."""

import hashlib
from pathlib import Path

import pytest

from idwbench.attention.records import Method, Parameter
from idwbench.attention.scores import register_method
from idwbench.errors import SpecError
from idwbench.runs.datasets import TwoMoonsConfig
from idwbench.runs.protocol import Protocol, default_protocol
from idwbench.sweep import yaml_source
from idwbench.sweep.spec import SweepSpec, read_sweep

GOOD = """\
name: small
description: A test
dataset: {name: two_moons, noise: 0.2}
protocol: {epochs: 5, learning_rate: 1e-3}
seeds: 3
grid:
  - {method: [fc_relu, neg_dist], prototypes: [2, 16]}
  - {method: idw, prototypes: 16, power: [1, 2.5], epsilon: [1e-3, 1.0e-2, 0]}
"""


def read(tmp_path: Path, text: str) -> SweepSpec:
    file = tmp_path / "x.yaml"
    file.write_text(text, encoding="utf-8")
    return read_sweep(file)


def error_of(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert caught.value.exit_code == 2
    return message.removeprefix(f"{tmp_path / 'x.yaml'}:")


DATA_ONLY = "a sweep file is data and runs no code"
NONE = " (it takes no parameters)"
ROWS = "expected a number of rows, or a fraction between 0 and 1"
STORABLE = "expected text without NUL and lone surrogates"
TWO_MOONS = "expected one of: " + ", ".join(sorted(TwoMoonsConfig.model_fields))


def grid(text: str) -> str:
    """Return a sweep whose grid is the flow mapping `text`, on line 4 from column 7."""
    return f"name: x\ndataset: two_moons\nseeds: 1\ngrid: {text}\n"


def test_a_good_file_becomes_frozen_values(tmp_path):
    spec = read(tmp_path, GOOD)
    assert (spec.name, spec.description, spec.seeds) == ("small", "A test", (0, 1, 2))
    assert spec.datasets[0][0] == TwoMoonsConfig(noise=0.2)
    assert spec.datasets[0][1] == Protocol(epochs=5, batch_size=10, learning_rate=1e-3)
    assert spec.grid[0] == {"method": ("fc_relu", "neg_dist"), "prototypes": (2, 16)}
    assert spec.grid[1]["power"] == (1.0, 2.5)
    assert spec.source == GOOD


def test_of_many_keys_the_five_nearest_are_named(tmp_path):
    with pytest.raises(SpecError, match=r"grid\.zzz: unknown key \(the nearest valid words: \w+(, \w+){4}\)$"):
        read(tmp_path, grid("{zzz: 1}"))


def test_a_mapping_is_one_block_whose_scalars_are_axes_of_length_one(tmp_path):
    spec = read(tmp_path, grid("{method: idw, prototypes: 4, learning_rate: [1, 0.1], initialisation: [mean, kmeans]}"))
    axes = {"learning_rate": (1.0, 0.1), "initialisation": ("mean", "kmeans")}
    assert spec.grid == ({"method": ("idw",), "prototypes": (4,), **axes},)
    assert spec.datasets[0][1] == default_protocol("two_moons")
    possible = "{method: idw, prototypes: 4, optimizer: sgd, momentum: [0, 0.9], epochs: 9, warmup_epochs: 8}"
    assert read(tmp_path, grid(possible)).grid[0]["momentum"] == (0, 0.9)


def test_comments_aliases_and_the_line_ends_of_other_systems_do_no_harm(tmp_path):
    text = "# a\nname: x # b\n# c\ndataset: two_moons\nseeds: [ # d\n 1, # e\n # f\n 4294967295\n]\ngrid: # g\n"
    text += "  # h\n  - method: idw # i\n\n    # j\n    prototypes: &p # k\n      - 2 # l\n      # m\n# n\n"
    text += "  - {method: gaussian, prototypes: *p}\n"
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    spec = read_sweep(file)
    assert spec.seeds == (1, 2**32 - 1)
    assert [block["prototypes"] for block in spec.grid] == [(2,), (2,)]


def test_the_dialect_is_yaml_1_2(tmp_path):
    for name in ("yes", "2024-01-31", "=", "'<<'", "0o9", "1e"):
        assert read(tmp_path, GOOD.replace("name: small", f"name: {name}")).name == name.strip("'")
    for rate in ("1e-3", "1.0e-3", "1E-3", "+.001", "0.001_0"):
        assert read(tmp_path, GOOD.replace("1e-3}", f"{rate}}}", 1)).datasets[0][1].learning_rate == 1e-3


def test_a_data_file_is_found_beside_the_sweep_and_known_by_its_content(tmp_path):
    (tmp_path / "points.csv").write_text("a,label\n1,0\n", encoding="utf-8")
    spec = read(tmp_path, grid("{method: idw, prototypes: 4}").replace("two_moons", "points.csv"))
    assert spec.datasets[0][0].name == "csv"
    assert spec.datasets[0][0].sha256 == hashlib.sha256(b"a,label\n1,0\n").hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
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
    ],
)
def test_an_error_names_line_column_and_key(tmp_path, old, new, expected):
    assert GOOD.count(old) >= 1
    assert error_of(tmp_path, GOOD.replace(old, new, 1)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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
        (grid("[idw]"), "4:8: grid[0]: expected a mapping of axes, such as {method: [idw], prototypes: [16]}"),
    ],
)
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


@pytest.mark.parametrize(
    ("axes", "protocol", "expected"),
    [
        ("momentum: [0, 0.9]", "", "momentum[1]: needs optimizer sgd, not adam_amsgrad"),
        ("momentum: 0.9, optimizer: [sgd, adam]", "", "momentum: needs optimizer sgd, not adam"),
        ("optimizer: [sgd, adam]", "optimizer: sgd, momentum: 0.9", "optimizer[1]: needs optimizer sgd, not adam"),
        ("warmup_epochs: [0, 3, 9], epochs: 4", "", "warmup_epochs[2]: expected fewer than the 4 epochs, got 9"),
        (
            "batch_size: [1, 2], epochs: [9, 5]",
            "warmup_epochs: 6",
            "epochs[1]: expected fewer than the 5 epochs, got 6",
        ),
        ("epochs: [1, true]", "", "epochs[1]: input should be a valid integer, got True"),
    ],
)
def test_a_rule_on_several_settings_blames_the_value_that_breaks_it(tmp_path, axes, protocol, expected):
    text = grid(f"{{method: idw, prototypes: 4, {axes}}}") + f"protocol: {{{protocol}}}\n"
    message = error_of(tmp_path, text)
    assert message.split(": ", 1)[1].removeprefix("grid.").startswith(expected)


def test_a_plugins_parameter_is_an_axis(tmp_path):
    register_method(
        Method("scaled", "0", score=lambda inputs, keys: 0, parameters=(Parameter("gain", 1.0, minimum=0),))
    )
    assert read(tmp_path, grid("{method: scaled, prototypes: 2, gain: [1, 2]}")).grid[0]["gain"] == (1, 2)
    message = error_of(tmp_path, grid("{method: scaled, prototypes: 2, gain: [1, -2]}"))
    assert message == "4:49: grid.gain[1]: must be >= 0, got -2"
