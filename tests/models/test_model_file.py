from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS, idw
from idwbench.errors import ModelFileError, OutputError, PatchError
from idwbench.models.model_file import load_model, save_model
from idwbench.models.saved_model import SavedModel, saved_model
from idwbench.runs.config import run_config


@pytest.fixture
def model(blobs) -> SavedModel:
    config = run_config(blobs.config, prototypes=5, power=4)
    generator = np.random.default_rng(0)
    arrays = {name: generator.normal(size=(5, 3)).astype(np.float32) for name in ("keys", "values")}
    return saved_model(config, blobs, arrays, engine="torch", device="cpu")


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_model_read_back_is_the_model_written(model, tmp_path, ending, blobs):
    path = tmp_path / f"model.{ending}"
    save_model(model, path)
    again = load_model(path)
    assert torch.equal(again.network.keys, model.network.keys)
    assert torch.equal(again.network.values, model.network.values)
    assert (again.config, again.class_names, again.provenance) == (model.config, model.class_names, model.provenance)
    np.testing.assert_array_equal(again.scaling.mean, model.scaling.mean)
    np.testing.assert_array_equal(again.network.predict(blobs.test.inputs), model.network.predict(blobs.test.inputs))


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_the_same_model_gives_the_same_bytes(model, tmp_path, ending):
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
    save_model(model, first)
    save_model(model, second)
    assert first.read_bytes() == second.read_bytes()


def test_a_pt_file_opens_without_unpickling_objects(model, tmp_path):
    save_model(model, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)
    assert content["config"]["method"] == "idw"
    assert content["provenance"]["run_key"] == model.config.run_key
    assert {"keys", "values", "scaling_mean", "scaling_std"} <= content.keys()


def test_an_existing_file_is_kept_unless_overwriting_is_allowed(model, tmp_path):
    path = tmp_path / "model.pt"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        save_model(model, path)
    assert path.read_text() == "mine"
    save_model(model, path, overwrite=True)
    assert load_model(path).config == model.config
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.pt"]


def test_an_unknown_ending_is_refused(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"expected a name ending in .pt or .safetensors"):
        save_model(model, tmp_path / "model.bin")


def test_a_file_is_read_back_before_it_is_written(model, tmp_path):
    with torch.no_grad():
        model.network.values[0, 0] = torch.inf
    with pytest.raises(ModelFileError, match="values is not finite"):
        save_model(model, tmp_path / "model.pt")

    def refuse(again):
        assert torch.equal(again.network.keys, model.network.keys)
        raise PatchError("no")

    with torch.no_grad():
        model.network.values[0, 0] = 0
    with pytest.raises(PatchError, match="no"):
        save_model(model, tmp_path / "model.pt", check=refuse)
    assert list(tmp_path.iterdir()) == []


def test_provenance_is_that_of_the_run_and_not_of_the_process_that_saves(model, blobs):
    def provenance(engine, **stored):
        arrays = {"keys": model.network.keys.detach().numpy(), "values": model.network.values.detach().numpy()}
        return saved_model(model.config, blobs, arrays, engine=engine, device="cpu", **stored).provenance

    stored = provenance("fused", versions={"torch": "1.0", "numba": "0.1"}, data_sha256="abc")
    assert (stored["versions"], stored["data_sha256"]) == ({"numba": "0.1", "torch": "1.0"}, "abc")
    assert provenance("torch")["versions"].keys() == {"idwbench", "numpy", "python", "torch"}
    assert "numba" in provenance("fused")["versions"]
    assert provenance("torch")["data_sha256"] == blobs.sha256


class Malicious:
    def __reduce__(self):
        return (exec, ("raise SystemExit('unpickled!')",))


@pytest.mark.parametrize(
    "name",
    ["text.pt", "pickle.pt", "object.pt", "other.pt", "state.pt", "text.safetensors", "other.safetensors", "absent.pt"],
)
def test_a_file_that_is_not_a_model_is_refused_in_one_line(tmp_path, name):
    path = tmp_path / name
    if name.startswith("text"):
        path.write_text("hello")
    elif name == "pickle.pt":
        path.write_bytes(pickle.dumps(Malicious()))
    elif name == "object.pt":
        torch.save({"format": Malicious()}, path)
    elif name == "other.pt":
        torch.save({"weights": torch.zeros(2)}, path)
    elif name == "state.pt":
        torch.save(torch.zeros(2), path)
    elif name == "other.safetensors":
        save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ModelFileError, match=name) as error:
        load_model(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": torch.zeros(4, 3)}, "do not fit"),
        ({"keys": torch.zeros(5, 3, dtype=torch.float64)}, "float32"),
        ({"values": torch.full((5, 3), torch.nan)}, "not finite"),
        ({"class_names": ["a"]}, "class names"),
        ({"scaling_std": torch.ones(7, dtype=torch.float64)}, "does not fit 3 columns"),
        ({"scaling_std": torch.zeros(3, dtype=torch.float64)}, "scaling_std is not positive"),
        ({"scaling_std": torch.full((3,), -1.0, dtype=torch.float64)}, "scaling_std is not positive"),
        ({"scaling_std": torch.tensor(torch.nan, dtype=torch.float64)}, "scaling_std is not finite"),
        ({"scaling_mean": torch.tensor(torch.nan, dtype=torch.float64)}, "scaling_mean is not finite"),
        ({"scaling_mean": 0.0}, "scaling_mean is not a tensor"),
        ({"keys": torch.zeros(5, 3).to_sparse()}, "keys is not a plain tensor"),
        ({"keys": torch.zeros(5, 3, device="meta")}, "keys is not a plain tensor"),
        ({"keys": torch.zeros(0, 3), "values": torch.zeros(0, 3)}, "at least one prototype"),
        ({"keys": torch.zeros(5, 0)}, "at least one prototype and one feature"),
        ({"class_names": "abc"}, "class_names: "),
        ({"class_names": [1, 2, 3]}, "class_names.0: "),
        ({"patches": 5}, "patches: "),
        ({"patches": [5]}, "patches.0: "),
        ({"patches": [{"label": torch.zeros(1)}]}, "expected plain texts, numbers"),
        ({"provenance": {"run_key": torch.zeros(1)}}, "expected plain texts, numbers"),
        ({"provenance": []}, "provenance: "),
        ({"image_shape": "ab"}, "image_shape: "),
        ({"image_shape": [2]}, "image_shape: "),
        ({"image_shape": [3, 0]}, "image_shape.1: "),
        ({"image_shape": [2, 2]}, "does not fit 3 features"),
        ({"version": None}, "version: expected one of"),
        ({"version": 10**20}, "version: expected one of"),
        ({"config": {"method": "idw"}}, "damaged"),
        ({"version": 99}, "upgrade idwbench"),
    ],
)
def test_a_damaged_model_file_is_refused(model, tmp_path, change, message):
    save_model(model, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)
    torch.save(content | change, tmp_path / "damaged.pt")
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "damaged.pt")


@pytest.mark.parametrize("name", ["format", "version", "config", "patches", "keys", "scaling_std"])
def test_a_model_file_that_lacks_something_is_refused(model, tmp_path, name):
    save_model(model, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)
    del content[name]
    torch.save(content, tmp_path / "damaged.pt")
    with pytest.raises(ModelFileError, match="not an idwbench model" if name == "format" else f"'{name}' is missing"):
        load_model(tmp_path / "damaged.pt")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"power": 2.0}, "'epsilon' is missing"),
        ({"power": 2.0, "epsilon": "small"}, "epsilon: expected a number, got 'small'"),
        ({"power": 2.0, "epsilon": -1.0}, "epsilon: must be >= 0"),
        ({"power": 2.0, "epsilon": 1.0, "scale": "\n\x1b[2J"}, "does not take 'scale'"),
        ({"power": 2.0, "epsilon": 1.0, "a\nb": 1.0}, "does not take 'a"),
    ],
)
def test_parameters_that_the_method_does_not_have_so_are_refused_in_one_line(model, tmp_path, parameters, message):
    save_model(model, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)
    content["config"]["parameters"] = parameters
    torch.save(content, tmp_path / "damaged.pt")
    with pytest.raises(ModelFileError, match=message) as error:
        load_model(tmp_path / "damaged.pt")
    assert str(error.value).isprintable()


@pytest.mark.parametrize("facts", ["[1, 2]", "[" * 100_000, '{"format": "idwbench-model"}', "5", "{", "9" * 5000])
def test_a_safetensors_file_with_other_facts_is_refused_in_one_line(tmp_path, facts):
    save_file({"keys": torch.zeros(1)}, tmp_path / "odd.safetensors", {"idwbench-model": facts})
    with pytest.raises(ModelFileError, match=r"odd.safetensors: ") as error:
        load_model(tmp_path / "odd.safetensors")
    assert str(error.value).isprintable()


def test_deeply_nested_facts_are_refused(model, tmp_path):
    save_model(model, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)
    nested: list = []
    for _ in range(5000):
        nested = [nested]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        torch.save(content | {"provenance": {"a": nested}}, tmp_path / "nested.pt")
    finally:
        sys.setrecursionlimit(limit)
    with pytest.raises(ModelFileError, match=r"nested.pt: .*expected plain"):
        load_model(tmp_path / "nested.pt")


def test_a_pt_file_with_a_flipped_byte_is_refused_or_the_same_model(model, tmp_path):
    save_model(model, tmp_path / "model.pt")
    content = (tmp_path / "model.pt").read_bytes()
    keys = model.network.keys.detach().numpy().tobytes()
    places = [content.index(keys) + 2, content.index(b"two_moons")]
    for place in places:
        (tmp_path / "flipped.pt").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ModelFileError, match=r"the checksum of .* is wrong"):
            load_model(tmp_path / "flipped.pt")
    for place in range(0, len(content), 37):
        (tmp_path / "flipped.pt").write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        try:
            again = load_model(tmp_path / "flipped.pt")
        except ModelFileError as error:
            assert str(error).isprintable()
        else:
            assert torch.equal(again.network.keys, model.network.keys)
            assert again.config == model.config


def test_a_safetensors_file_with_other_numbers_or_facts_has_a_wrong_checksum(model, tmp_path):
    save_model(model, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    keys = model.network.keys.detach().numpy().tobytes()
    for place in (content.index(keys) + 2, content.index(b"two_moons"), content.index(b"torch")):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        (tmp_path / "changed.safetensors").write_bytes(changed)
        with pytest.raises(ModelFileError, match=r"not an idwbench model: its checksum is wrong"):
            load_model(tmp_path / "changed.safetensors")


def test_a_safetensors_file_of_an_older_version_has_no_checksum(model, tmp_path):
    save_model(model, tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(file.metadata()["idwbench-model"])
    assert len(facts.pop("sha256")) == 64
    save_file(tensors, tmp_path / "older.safetensors", {"idwbench-model": json.dumps(facts)})
    assert load_model(tmp_path / "older.safetensors").config == model.config


def test_objects_are_refused_without_a_word_of_how_to_load_them(tmp_path):
    torch.save({"format": "idwbench-model", "x": print}, tmp_path / "hostile.pt")
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(print))
    for name, problem in {
        "hostile": "it holds Python objects, or is not a file of torch.save",
        "raw": "it is not the zip archive that torch.save writes",
    }.items():
        with pytest.raises(ModelFileError) as error:
            load_model(tmp_path / f"{name}.pt")
        assert error.value.problem == f"not an idwbench model: {problem}"


def test_an_expanded_tensor_of_few_numbers_is_refused(model, tmp_path):
    save_model(model, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)
    torch.save(content | {"keys": torch.zeros(1).expand(5, 10**12)}, tmp_path / "huge.pt")
    with pytest.raises(ModelFileError, match=r"keys is not a plain tensor"):
        load_model(tmp_path / "huge.pt")


def test_a_folder_is_not_a_model(tmp_path):
    (tmp_path / "model.pt").mkdir()
    with pytest.raises(ModelFileError, match="is a folder"):
        load_model(tmp_path / "model.pt")


def test_a_model_without_read_permission_is_reported_in_one_line(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.stat", refuse)
    with pytest.raises(ModelFileError, match=r"model.pt: cannot be read \(Permission denied\)"):
        load_model(tmp_path / "model.pt")


def test_a_model_of_another_version_of_its_plugin_is_refused(model, tmp_path):
    changed = model.config.model.model_copy(update={"method": "lap", "plugin_sha256": "1" * 64})
    config = model.config.model_copy(update={"model": changed})
    METHODS["lap"] = Method("lap", "", idw, parameters=METHODS["idw"].parameters, sha256="1" * 64)
    save_model(replace(model, config=config), tmp_path / "model.pt")
    assert load_model(tmp_path / "model.pt").config.model.method == "lap"
    METHODS["lap"] = replace(METHODS["lap"], sha256="2" * 64)
    with pytest.raises(ModelFileError, match="was trained with another version of the plugin that defines 'lap'"):
        load_model(tmp_path / "model.pt")
    del METHODS["lap"]
    with pytest.raises(ModelFileError, match=r"unknown method 'lap' \(if a plugin defines it, load the plugin first\)"):
        load_model(tmp_path / "model.pt")
