from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from idwbench.config import default_protocol, parse_run
from idwbench.errors import ModelFileError, OutputError
from idwbench.modelfile import SavedModel, load_model, save_model, saved_model


@pytest.fixture
def model(blobs) -> SavedModel:
    config = parse_run(blobs.config, "idw", 5, default_protocol("two_moons"), 0, {"power": 4})
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(5, 3, generator=generator), torch.randn(5, 3, generator=generator)
    return saved_model(config, blobs, keys, values, engine="torch", device="cpu")


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


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(model, tmp_path):
    path = tmp_path / "model.pt"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already; give --force"):
        save_model(model, path)
    assert path.read_text() == "mine"
    save_model(model, path, overwrite=True)
    assert load_model(path).config == model.config
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.pt"]


def test_an_unknown_ending_is_refused(model, tmp_path):
    with pytest.raises(ModelFileError, match=r"expected a name ending in .pt or .safetensors"):
        save_model(model, tmp_path / "model.bin")


class Malicious:
    def __reduce__(self):
        return (exec, ("raise SystemExit('unpickled!')",))


@pytest.mark.parametrize(
    "name",
    ["text.pt", "pickle.pt", "object.pt", "other.pt", "state.pt", "text.safetensors", "other.safetensors", "absent.pt"],
)
def test_what_is_no_model_file_is_refused_in_one_line(tmp_path, name):
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
        from safetensors.torch import save_file

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
        ({"scaling_std": torch.ones(7)}, "does not fit 3 features"),
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
