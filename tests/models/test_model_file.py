"""Files of models: what is written is read back; damaged, hostile and foreign files are refused in one line."""

import json
import pickle
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from array_models import random_arrays, saved_array_model, tensors_in
from case_tables import case_table
from safetensors import safe_open
from safetensors.torch import save_file

from idwbench import model_card
from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS, idw
from idwbench.errors import ModelFileError, OutputError
from idwbench.models.model_card import saved_model_card
from idwbench.models.model_file import CHECKSUM, _checksum, load_model, save_model
from idwbench.runs.config import run_config

OLDER = Path(__file__).parents[1] / "assets" / "model_files"


def write_changed(path, target, **changes):
    """Write a .pt file with other entries of the card, or other tensors, and with their checksum; None removes one."""
    fields = torch.load(path, weights_only=True)
    card = json.loads(fields.pop("model.json"))
    for name, change in changes.items():
        part = fields if name in fields else card
        if name == "parameters":
            card["config"]["parameters"] = change
        elif change is None:
            del part[name]
        else:
            part[name] = change
    card[CHECKSUM] = _checksum({name: entry for name, entry in card.items() if name != CHECKSUM}, fields)
    torch.save({"model.json": json.dumps(card), **fields}, target)


def random_model(dataset, **settings):
    config = run_config(dataset.config, prototypes=5, **settings)
    return saved_array_model(config, dataset, random_arrays(config, dataset))


@pytest.fixture
def model(blobs):
    return random_model(blobs, power=4)


def test_a_file_is_new_has_a_known_ending_and_is_read_back_before_it_is_written(model, tmp_path):
    path = tmp_path / "model.pt"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        save_model(model, path)
    with pytest.raises(ModelFileError, match=r"expected a name ending in .pt or .safetensors"):
        save_model(model, tmp_path / "model.bin")
    assert path.read_text() == "mine"
    save_model(model, path, overwrite=True)
    assert load_model(path).config == model.config
    with torch.no_grad():
        model.network.values[0, 0] = torch.inf
    with pytest.raises(ModelFileError, match="values is not finite"):
        save_model(model, path, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.pt"]


LEARNED = [{}, {"slope_rank": 2, "power": 4}, {"method": "additive"}, {"weighting": "top_k", "k": 2}]


@pytest.mark.parametrize("suffix", [".pt", ".SAFETENSORS"])
@pytest.mark.parametrize("settings", LEARNED)
def test_all_that_a_model_has_learned_is_read_back_with_patches_or_without(settings, suffix, blobs, tmp_path):
    models, inputs = [random_model(blobs, **settings)], blobs.test.inputs
    if "k" not in settings:
        wanted = (int(models[0].outputs(inputs[:1]).argmax()) + 1) % 3
        models.append(models[0].patch(inputs[0], wanted, radius=0.1, confidence=0.6))
        assert models[1].outputs(inputs[:1]).argmax() == wanted
    for saved in models:
        save_model(saved, tmp_path / f"model{suffix}", overwrite=True)
        read = load_model(tmp_path / f"model{suffix}")
        np.testing.assert_array_equal(read.outputs(inputs), saved.outputs(inputs))
        save_model(read, tmp_path / f"again{suffix}", overwrite=True)
        assert (tmp_path / f"again{suffix}").read_bytes() == (tmp_path / f"model{suffix}").read_bytes()
        assert (read.config, read.repairs) == (saved.config, saved.repairs)
        assert saved_model_card(read) == saved_model_card(saved)
        for name, array in saved.network.state_dict().items():
            assert torch.equal(read.network.state_dict()[name], array)
        terms = read.explain(inputs[1])
        assert (terms.weights > 0).sum() == settings.get("k", len(saved.keys))
        np.testing.assert_allclose(terms.weights @ terms.values, terms.outputs, atol=1e-5)


# Files that are no models, or damaged ones


class Calling:
    """An object whose pickle calls a function, or makes an array of a size that few bytes of the file say."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def save_nested(path):
    facts: list = []
    for _ in range(5000):
        facts = [facts]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        torch.save(torch.load(OLDER / "moons.pt", weights_only=True) | {"provenance": {"a": facts}}, path)
    finally:
        sys.setrecursionlimit(limit)


EXIT = Calling(exec, "raise SystemExit('unpickled!')")
HELD = "not an idwbench model: it holds Python objects, or is not a file of torch.save"
RAW = "not an idwbench model: it is not the zip archive that torch.save writes"
HEADER = b'{"keys":{"dtype":"F32","shape":[1099511627776,1024],"data_offsets":[0,4503599627370496]}}'
FACTS = ("[1, 2]", "[" * 100_000, '{"format": "idwbench-model"}', "5", "{", "9" * 5000)
NO_MODELS = [
    ("text.pt", lambda path: path.write_text("hello"), RAW),
    ("text.safetensors", lambda path: path.write_text("hello"), ""),
    ("raw.pt", lambda path: path.write_bytes(pickle.dumps(print)), RAW),
    ("pickle.pt", lambda path: path.write_bytes(pickle.dumps(EXIT)), RAW),
    ("object.pt", lambda path: torch.save({"format": EXIT}, path), HELD),
    ("function.pt", lambda path: torch.save({"format": "idwbench-model", "x": print}, path), HELD),
    ("bytes.pt", lambda path: torch.save({"x": Calling(bytearray, 2**26)}, path), HELD),
    ("tensor.pt", lambda path: torch.save({"x": Calling(torch.Tensor, 2**12, 2**12)}, path), HELD),
    ("nested.pt", save_nested, "damaged model file: Value error, expected plain texts, numbers, lists and mappings"),
    ("other.pt", lambda path: torch.save({"weights": torch.zeros(2)}, path), ""),
    ("state.pt", lambda path: torch.save(torch.zeros(2), path), ""),
    ("other.safetensors", lambda path: save_file({"a": torch.zeros(1)}, path), ""),
    ("size.safetensors", lambda path: path.write_bytes((2**63).to_bytes(8, "little") + HEADER), ""),
    ("shape.safetensors", lambda path: path.write_bytes(len(HEADER).to_bytes(8, "little") + HEADER), ""),
    ("absent.pt", lambda path: None, ""),
    ("folder.pt", lambda path: path.mkdir(), "is a folder, expected a file"),
    *(
        ("odd.safetensors", lambda path, entry={name: facts}: save_file({"keys": torch.zeros(1)}, path, entry), "")
        for name in ("model.json", "idwbench-model")
        for facts in FACTS
    ),
]


@pytest.mark.parametrize(("name", "write", "message"), NO_MODELS)
def test_a_file_that_is_not_a_model_is_refused_in_one_line_without_advice_to_load_it(tmp_path, name, write, message):
    write(tmp_path / name)
    with pytest.raises(ModelFileError, match=name) as error:
        load_model(tmp_path / name)
    assert str(error.value).isprintable()
    assert not message or error.value.problem == message


@pytest.mark.parametrize(("settings", "changes"), case_table("wrong_arrays")["model_files"])
def test_a_damaged_model_file_is_refused(blobs, tmp_path, settings, changes):
    save_model(random_model(blobs, **settings), tmp_path / "model.pt")
    for change, message in changes:
        write_changed(tmp_path / "model.pt", tmp_path / "damaged.pt", **tensors_in(change))
        with pytest.raises(ModelFileError, match=message):
            load_model(tmp_path / "damaged.pt")


@pytest.mark.parametrize("name", ["moons", "sine", "imported"])
def test_a_file_of_an_earlier_format_is_the_same_model_in_both_of_its_forms(name, tmp_path):
    with zipfile.ZipFile(OLDER / f"{name}.pt") as archive:
        card = json.loads(archive.read("archive/model.json"))
    models = [load_model(OLDER / f"{name}.{ending}") for ending in ("pt", "safetensors")]
    # The demands of earlier patches are written in today's words.
    cards = [saved_model_card(model) for model in models]
    assert cards[0] == cards[1] and {**cards[0], "patches": card["patches"]} == card
    inputs = np.linspace(-1, 1, 6).reshape(-1, models[0].n_features)
    fields = torch.load(OLDER / f"{name}.pt", weights_only=True)
    for model in models:
        np.testing.assert_array_equal(model.keys, fields["keys"].numpy())
        np.testing.assert_array_equal(model.values, fields["values"].numpy())
        np.testing.assert_array_equal(model.scaling.std, fields["scaling_std"])
        model.save(tmp_path / "again.pt", overwrite=True)
        again = load_model(tmp_path / "again.pt")
        assert saved_model_card(again) == cards[0]
        assert (again.provenance, again.config) == (fields["provenance"], model.config)
        np.testing.assert_array_equal(again.predict(inputs), model.predict(inputs))
    if name == "moons":
        outputs = models[0].demanded_outputs()
        assert all(demand.holds(row) for demand, row in zip(models[0].repairs.demands(), outputs, strict=True))
        assert len(models[0].undo_patch(1).repairs) == 1
        without = {entry: value for entry, value in fields.items() if not entry.endswith("metrics")}  # older still
        torch.save(without, tmp_path / "older.pt")
        card = saved_model_card(load_model(tmp_path / "older.pt"))
        assert card == {**cards[0], "metrics": {}, "metrics_with_patches": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scaling_mean": 0.0}, "'scaling_mean' is missing"),
        ({"keys": torch.zeros(6, 2).to_sparse()}, "it holds Python objects"),
        ({"keys": torch.zeros(6, 2, dtype=torch.bfloat16)}, "it holds Python objects"),
        ({"keys": torch.zeros(1).expand(6, 10**12)}, "keys is not a plain tensor"),
        ({"class_names": "abc"}, "class_names: "),
        ({"patches": [{"label": torch.zeros(1)}]}, "expected plain texts, numbers"),
        ({"provenance": {"run_key": torch.zeros(1)}}, "expected plain texts, numbers"),
        ({"version": 3}, "'image_shape' is missing"),
    ],
)
def test_a_damaged_file_of_an_earlier_format_is_refused(tmp_path, change, message):
    fields = torch.load(OLDER / "moons.pt", weights_only=True)
    if "version" in change:
        del fields["image_shape"]
    torch.save(fields | change, tmp_path / "damaged.pt")
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "damaged.pt")


def test_a_file_with_another_number_or_fact_has_a_wrong_checksum(model, tmp_path):
    for ending in ("pt", "safetensors"):
        path = tmp_path / f"model.{ending}"
        save_model(model, path)
        content = path.read_bytes()
        for part in (model.network.keys.detach().numpy().tobytes(), b"two_moons"):
            place = content.index(part) + 2
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(ModelFileError, match=r"checksum .*is wrong"):
                load_model(path)


def test_a_safetensors_file_of_an_older_version_has_no_checksum(tmp_path):
    with safe_open(OLDER / "moons.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(file.metadata()["idwbench-model"])
    assert len(facts.pop("sha256")) == 64
    save_file(tensors, tmp_path / "older.safetensors", {"idwbench-model": json.dumps(facts)})
    assert load_model(tmp_path / "older.safetensors").config == load_model(OLDER / "moons.pt").config


def test_a_file_by_the_other_name_or_with_compressed_or_endless_entries_allocates_nothing(model, tmp_path):
    for ending in ("pt", "safetensors"):
        save_model(model, tmp_path / f"model.{ending}")
    content = bytearray((tmp_path / "model.pt").read_bytes())
    (tmp_path / "other.safetensors").write_bytes(content)
    (tmp_path / "other.pt").write_bytes((tmp_path / "model.safetensors").read_bytes())
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, entry in entries.items():
            archive.writestr(name, entry + bytes(2**24 if name.endswith("data.pkl") else 0))
    # The sizes of the first entry in the directory at the end of the archive.
    place = content.index(b"PK\x01\x02") + 20
    content[place : place + 8] = (2**31).to_bytes(4, "little") * 2
    (tmp_path / "endless.pt").write_bytes(content)
    (tmp_path / "repeated.pt").write_bytes((tmp_path / "model.pt").read_bytes())
    with zipfile.ZipFile(tmp_path / "repeated.pt", "a") as archive:  # entries of the same bytes
        archive.filelist *= 1_000
        archive._didModify = True
    for name, compressed in (("bomb", True), ("endless", True), ("repeated", True), ("other", False)):
        with pytest.raises(ModelFileError, match=r"not an idwbench model: ") as error:
            load_model(tmp_path / f"{name}.pt")
        assert ("it is compressed, which torch.save never does" in str(error.value)) == compressed
    with pytest.raises(ModelFileError, match=r"not an idwbench model: "):
        load_model(tmp_path / "other.safetensors")


def test_a_model_of_another_version_of_its_plugin_is_refused_but_has_its_card(model, tmp_path):
    changed = model.config.model.model_copy(update={"method": "lap", "plugin_sha256": "1" * 64})
    config = model.config.model_copy(update={"model": changed})
    METHODS["lap"] = Method("lap", METHODS["idw"].formula, idw, parameters=METHODS["idw"].parameters, sha256="1" * 64)
    save_model(replace(model, config=config), tmp_path / "model.pt")
    assert load_model(tmp_path / "model.pt").config.model.method == "lap"
    card = model_card(tmp_path / "model.pt")
    METHODS["lap"] = replace(METHODS["lap"], sha256="2" * 64)
    with pytest.raises(ModelFileError, match="was trained with another version of the plugin that defines 'lap'"):
        load_model(tmp_path / "model.pt")
    del METHODS["lap"]
    with pytest.raises(
        ModelFileError, match=r"its method 'lap' is a plugin, a file of its own \(load the plugin first\)"
    ):
        load_model(tmp_path / "model.pt")
    assert model_card(tmp_path / "model.pt") == card and card["method"] == "lap"
    (tmp_path / "model.pt").write_bytes((tmp_path / "model.pt").read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="not an idwbench model"):
        model_card(tmp_path / "model.pt")
