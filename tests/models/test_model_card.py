from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import idwbench
from idwbench.models.model_card import card_text, saved_model_card
from idwbench.models.model_file import load_model
from idwbench.models.repair import repair, undo
from idwbench.models.saved_model import SavedModel, stored_model
from idwbench.results.store import Results

OLDER = Path(__file__).parents[1] / "assets" / "model_files" / "moons.pt"
DATA = {"name": "two_moons", "train_per_class": 20, "test_per_class": 10, "holdout_per_class": 10}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    path = tmp_path_factory.mktemp("card") / "results.db"
    idwbench.train(idwbench.run_config(dict(DATA), prototypes=4, epochs=3, seed=5), path)
    return Results(path)


@pytest.fixture(scope="module")
def model(results) -> SavedModel:
    return stored_model(results, results.find_runs()[0])


def card_in(path) -> dict:
    """Read the card as a program without idwbench would."""
    if path.suffix == ".pt":
        return json.loads(torch.load(path, weights_only=True)["model.json"])
    with safe_open(path, "np") as file:
        return json.loads(file.metadata()["model.json"])


def test_a_card_says_data_protocol_accuracies_and_run(results, model):
    run = results.find_runs()[0]
    card = idwbench.model_card(run.run_key[:12], results)
    assert card == idwbench.model_card(model) == idwbench.model_card(run, results)
    assert card["dataset"] == {
        "label": "two_moons",
        "sha256": run.data_sha256,
        "settings": run.config.dataset.model_dump(mode="json"),
    }
    assert card["protocol"]["epochs"] == 3
    assert (card["seed"], card["run_key"]) == (5, run.run_key)
    for split in ("train", "test", "holdout"):
        assert card["metrics"][split] == {"accuracy": run.metric("accuracy", split)}
    assert (card["metrics_with_patches"], card["patches"]) == (None, [])
    assert card["provenance"]["versions"] == run.versions
    assert json.loads(card_text(card)) == card


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_model_file_holds_its_card_for_other_readers_and_the_same_bytes_again(model, ending, tmp_path):
    paths = [tmp_path / f"{name}.{ending}" for name in ("first", "again", "read")]
    model.save(paths[0])
    model.save(paths[1])
    load_model(paths[0]).save(paths[2])
    card, stored = saved_model_card(model), card_in(paths[0])
    assert (
        card
        == saved_model_card(load_model(paths[0]))
        == {name: stored[name] for name in card} | {"provenance": card["provenance"]}
    )
    assert stored["provenance"] == model.provenance
    assert stored.keys() - card.keys() == {"format", "version", "config", "sha256"}
    assert paths[0].read_bytes() == paths[1].read_bytes() == paths[2].read_bytes()


def test_a_card_has_the_patches_and_the_accuracies_that_were_measured_with_them(model, tmp_path):
    names = model.class_names
    patched = repair(model, "5,5", names[1 - names.index(str(model.predict([[5.0, 5.0]])[0]))])
    card = saved_model_card(patched.after)
    assert [patch["x"] for patch in card["patches"]] == ["5,5"]
    assert card["prototypes"] == 5
    assert card["metrics"] == saved_model_card(model)["metrics"]
    measured = {name: {"accuracy": effect.accuracy_after} for name, effect in patched.effects.items()}
    assert card["metrics_with_patches"] == measured
    patched.save(tmp_path / "patched.pt")
    assert saved_model_card(load_model(tmp_path / "patched.pt")) == card
    assert saved_model_card(undo(patched.after, 1).after) == saved_model_card(model)


def test_metrics_with_patches_are_not_kept_for_other_patches(model):
    patched = repair(model, "5,5", str(1 - model.class_names.index(str(model.predict([[5.0, 5.0]])[0])))).after
    again = patched.patch([-5.0, 5.0], 1 - model.class_names.index(str(model.predict([[-5.0, 5.0]])[0])))
    assert len(again.patches) == 2
    assert saved_model_card(again)["metrics_with_patches"] is None


def test_provenance_is_that_of_the_run_and_not_of_the_process_that_saves(results, model):
    run = results.find_runs()[0]
    versions = {"torch": "1.0", "numba": "0.1"}
    stored = stored_model(results, replace(run, engine="other", versions=versions, data_sha256="abc")).provenance
    assert (stored["engine"], stored["data_sha256"]) == ("other", "abc")
    assert list(stored["versions"].items()) == [("numba", "0.1"), ("torch", "1.0")]
    unknown = stored_model(results, replace(run, versions=None, data_sha256=None)).provenance
    assert unknown["versions"].keys() >= {"idwbench", "numpy", "python", "torch"}
    assert unknown["data_sha256"] == run.data_sha256


def test_metrics_that_are_added_to_a_run_later_do_not_change_its_model_file(results, model):
    run = results.find_runs()[0]
    assert {name for _, name in run.metrics} > {"accuracy"}
    assert {name for found in model.metrics.values() for name in found} == {"accuracy"}


def test_a_file_of_an_older_version_has_no_metrics_and_a_card_all_the_same(tmp_path):
    fields = torch.load(OLDER, weights_only=True)
    for name in ("metrics", "patched_metrics"):
        del fields[name]
    torch.save(fields, tmp_path / "older.pt")
    card = idwbench.model_card(tmp_path / "older.pt")
    assert card == {**idwbench.model_card(OLDER), "metrics": {}, "metrics_with_patches": None}
