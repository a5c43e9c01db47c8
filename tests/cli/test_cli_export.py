from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typed import assert_one_line, files

from idwbench.models.model_file import load_model


@pytest.fixture
def model(run, tmp_path):
    """A model file of three labelled prototypes."""
    np.savez(tmp_path / "three.npz", prototypes=[[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], labels=["a", "b", "a"])
    result = run("import", "three.npz", "-o", "model.pt", "--power", 3)
    assert (result.exit_code, result.stdout) == (0, "model model.pt\n"), result.output
    return tmp_path / "model.pt"


def test_a_model_is_imported_with_the_accuracies_on_its_data_and_exported(run, tmp_path, model):
    data = ("--dataset", "two_moons", "--dataset-option", "train_per_class=20")
    np.savez(tmp_path / "centres.npz", keys=[[0.0, 1.0], [1.0, -0.5]])
    result = run("import", "centres.npz", "-o", "centres.safetensors", *data, "--method", "gaussian", "--json")
    facts = json.loads(result.stdout)
    assert facts["classes"] == ["upper", "lower"]
    assert facts["test_accuracy"] > 0.7
    lines = run("import", "centres.npz", "-o", "centres.pt", *data).stdout.splitlines()
    assert [line.rpartition(" accuracy")[0] for line in lines] == ["train", "test", "holdout", ""]
    for name in ("model.onnx", "model.py", "copy.safetensors"):
        result = run("export", "model.pt", "-o", name)
        assert (result.exit_code, result.stdout) == (0, f"{name}\n"), result.output
    assert load_model(tmp_path / "copy.safetensors").config == load_model(model).config
    facts = json.loads(run("export", "centres.pt", "-o", "centres.onnx", "--json").stdout)
    assert facts == {"output": "centres.onnx", "format": "onnx", "bytes": (tmp_path / "centres.onnx").stat().st_size}


def test_a_stored_run_is_exported_by_its_key_and_its_card_is_printed(run, tmp_path):
    setting = ("--dataset", "two_moons", "--prototypes", 4, "--epochs", 1, "--db", "r.db")
    key = json.loads(run("train", *setting, "-o", "trained.pt", "--json").stdout)["run_key"]
    assert run("export", key[:10], "-o", "model.py", "--db", "r.db").exit_code == 0
    assert run("export", "trained.pt", "-o", "from_file.py").exit_code == 0
    assert (tmp_path / "model.py").read_text() == (tmp_path / "from_file.py").read_text()
    card = json.loads(run("card", "trained.pt", "--json").stdout)
    assert card == json.loads(run("card", key[:10], "--db", "r.db", "--json").stdout)
    lines = dict(line.split("  ", 1) for line in run("card", "trained.pt").stdout.splitlines())
    assert lines["run key"].strip() == key
    assert lines["test metrics"].strip() == f"accuracy {card['metrics']['test']['accuracy']:.6g}"


REFUSED = {
    "no suffix": (["export", "model.pt", "-o", "model"], "model: expected a name ending in .onnx, .py, .skops"),
    "no model": (["export", "three.npz", "-o", "a.py"], "'three.npz' is neither a model file (.pt, .safetensors) nor"),
    "no file": (["export", "absent.pt", "-o", "a.py"], "absent.pt: no such file"),
    "exists": (["export", "model.pt", "-o", "three.npz"], "three.npz: expected a name ending in"),
    "overwrites": (["export", "model.pt", "-o", "model.pt"], "model.pt: exists already (--force replaces it)"),
    "no folder": (["export", "model.pt", "-o", "no/a.py"], "no/a.py: the folder no does not exist"),
    "import of a text": (["import", "notes.txt", "-o", "a.pt"], "notes.txt: not an .npz file"),
    "import to a text": (["import", "three.npz", "-o", "a.txt"], "expected a name ending in .pt or .safetensors"),
    "import over": (["import", "three.npz", "-o", "model.pt"], "model.pt: exists already (--force replaces it)"),
    "no power": (["import", "three.npz", "-o", "a.pt", "--power", "0"], "--power: must be > 0, got 0.0"),
    "not taken": (["import", "three.npz", "-o", "a.pt", "--temperature", "1"], "does not take 'temperature'"),
    "option alone": (["import", "three.npz", "-o", "a.pt", "--dataset-option", "noise=1"], "needs a data set"),
    "twice": (["import", "three.npz", "-o", "a.pt", "--power", "1", "--parameter", "power=2"], "given twice"),
    "no data": (["import", "three.npz", "-o", "a.pt", "--dataset", "moons"], "--dataset: unknown data set 'moons'"),
    "card of nothing": (["card", "zz"], "'zz' is neither a model file"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_exported_or_imported_is_one_line_and_nothing_is_written(run, tmp_path, model, what):
    arguments, words = REFUSED[what]
    (tmp_path / "notes.txt").write_text("hello")
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    assert_one_line(run(*arguments), 2, words)
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


@pytest.mark.parametrize("package", ["onnx", "skops"])
def test_a_missing_package_is_one_line_that_names_its_extra(run, model, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    words = f"needs the Python package '{package}' (pip install 'idwbench[{package}]')"
    assert_one_line(run("export", "model.pt", "-o", f"a.{package}"), 2, words)


def test_a_run_of_another_kind_has_no_model_to_export(run):
    data, grid = "{name: two_moons, train_per_class: 10}", "{kind: baseline, method: samples, prototypes: 2}"
    with open("s.yaml", "w") as file:
        file.write(f"name: s\ndataset: {data}\nseeds: 1\ngrid: {grid}\n")
    assert run("sweep", "s.yaml", "--db", "r.db").exit_code == 0
    key = json.loads(run("runs", "list", "--db", "r.db", "--json").stdout)[0]["run_key"]
    assert_one_line(run("export", key, "-o", "a.onnx", "--db", "r.db"), 1, "a run of kind baseline has no model")
