"""Run keys are for ever: stored results are found by them."""

from __future__ import annotations

import hashlib
import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import DATASETS, CsvConfig
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.protocol import Protocol

ASSETS = Path(__file__).parents[1] / "assets"
OF = ["mnist", "fashion_mnist"]

# As version 0.1.0 computed them.
PINNED = [
    (
        run_config("two_moons"),
        "fb5e03fe36731baa47f96aab571e1d7c56934b49206f03262d9532d5c40a5e55",
    ),
    (
        run_config("mnist", method="fc_relu", prototypes=20, seed=1),
        "4f1c25a09d05c570d047602aaf788821d63d646241c333ee624f75d0a3ca24ec",
    ),
    (
        run_config(
            {"name": "digits", "test_fraction": 0.5},
            method="scaled_dot",
            scale="prototypes",
            prototypes=8,
            epochs=3,
            batch_size=32,
            learning_rate=0.1,
            schedule="constant",
            seed=2**32 - 1,
        ),
        "dd87c6ad23c00ece4e8ddcfc3b625175e101e10bd850c7611144a8feba3273b7",
    ),
    (
        run_config(
            CsvConfig(path="a/b.csv", sha256="ab" * 32, label="kind"),
            method="neg_dist",
            power=3.0,
            prototypes=3,
            seed=7,
        ),
        "69a9f0d4d651e99e38d3978d049427cc8610c280bea3408dbfb206efc4167495",
    ),
]

# Kinds of runs and data sets that later versions added.
PINNED_KINDS = [
    (
        run_config("two_moons", kind="baseline", method="kmeans"),
        "3c58222f3577537f88918c075e5a2478ba7dbd9d4ed096b3d571f8b452b63d21",
    ),
    (
        run_config("two_moons", kind="patch_study", prototypes=2, seed=3),
        "98af7d026f9aad0ff9675ef7c4f41c2f306c13b2831e913df7f57928f3fceda1",
    ),
    (
        run_config("mnist", kind="patch_study", cases="wrong", prototypes=20),
        "4d828559bd3eaae1ab6eae4a58a8a1a30a37acde81df7a68242f4ace271237ee",
    ),
    (
        run_config({"name": "mnist", "scaling": "unit", "validation": 10_000}, kind="mlp", seed=4),
        "8014acb07aa50abf888f19499005498a80998e3cf26a75cc80d870b714213648",
    ),
    (
        run_config({"name": "joint", "of": OF}, kind="mlp"),
        "7c293b9b054c7f1d8a8f94f9ac48f30abe13181ebf70b30b89bfae801285f780",
    ),
    (
        run_config(
            {"name": "sequence", "of": OF, "validation": 10_000}, kind="mlp", record=True, record_dtype="float16"
        ),
        "571b5427f51c7ab2d2b52eb56b223ef8d42ac6cdefb7d1dfca499b6d8fcbd2fc",
    ),
    (
        run_config("aesop", kind="transformer_lm"),
        "0e01e88f9812190c8fe3da336c23eca16132113e66f24b245faa136ec0384724",
    ),
    (
        run_config("aesop", kind="lstm_lm"),
        "5276f8d111b8b9250f02e39c2e76034b3716245d5d9f2f6544849dfb8e888d85",
    ),
    (
        run_config(
            {"name": "wikitext_2", "tokens": "words", "vocabulary_size": 2000},
            kind="lstm_lm",
            record=True,
            record_dtype="float16",
            epochs=3,
        ),
        "920c7dbc2314006d873f879ed5c5f63955907b0c85d5e8b6424f80ae26ae0898",
    ),
    (
        run_config({"name": "joint", "of": OF}, prototypes=20),
        "c2871eb19b7106929913c8cc9e7f55a407c82ce5743cc357ee99a76e56281cfe",
    ),
    (
        run_config("lookup", kind="hash_table", similarity="idw", scaling="sqrt_dimensions"),
        "50703eb1adbdcbea17b36b030b6d37ccf73c1e0c1fa5bfcb460b6c447667004b",
    ),
    (
        run_config("lookup", kind="hash_table", similarity="idw", scaling="sqrt_dimensions", weighting="softmax"),
        "50703eb1adbdcbea17b36b030b6d37ccf73c1e0c1fa5bfcb460b6c447667004b",
    ),
    (
        run_config("digits", kind="network", encoder="vit_tiny", attention="idw", head="idw", prototypes=5),
        "806698e59a5fd93770eb754976c35234b4636dc92e8df3d36025cacc68bc3785",
    ),
    (
        run_config("two_moons", kind="scikit_learn", method="knn", n_neighbors=1),
        "eb7504c4243e99c66481ff24849447943c0d7db08cb5b9c96e372b17c8619471",
    ),
    (
        run_config("two_moons", kind="scikit_learn", method="svc", kernel="linear", standardise=True),
        "049ad491c356998739324d022fcb0f879bb9ec6dddf62f439c2f7eb962d8aab2",
    ),
    (
        run_config("two_moons", kind="scikit_learn", method="hist_gradient_boosting", early_stopping=False),
        "e512ab3637b1100771b73ec5fe22cbe0edc1a2c7bcfce4102f98ed7856af9e41",
    ),
    (run_config("iris"), "45f1fb8fbb31e55e5e997cd1a5e649cd045ee96f282e85c52b61d56154a12aa4"),
    (run_config("hypercube"), "0d3cbc354dffcf2183e7fb8f4a0ed4373799f47a34417f0af2b5cbe664b85d82"),
    (run_config("hastie_10_2"), "a81ab751c8babdb0d0bd1ddd91d17eebb75b00fe4fa09089a31994a13f46b36a"),
]

REQUIRED = {"path": "x", "of": OF}
# One valid mapping for each class of settings; a momentum needs sgd.
BASES: list[tuple[type[BaseModel], dict[str, Any]]] = [
    *(
        (dataset, {"name": name} | {key: value for key, value in REQUIRED.items() if key in dataset.model_fields})
        for name, dataset in DATASETS.items()
    ),
    (Protocol, {"epochs": 5, "batch_size": 2, "learning_rate": 0.1, "optimizer": "sgd"}),
    *((model, {"method": "idw", "prototypes": 2, "parameters": {}}) for model in MODELS.values()),
]
ADDED = [
    (settings, base, name)
    for settings, base in BASES
    for name, field in settings.model_fields.items()
    if "since" in (field.json_schema_extra or {})
]


def other_values(settings: type[BaseModel], base: dict[str, Any], name: str) -> list[BaseModel]:
    """Return `base` with values of one setting that are valid and not its default."""
    field = settings.model_fields[name]
    changed = []
    for value in (*get_args(field.annotation), 1, 0.5):
        try:
            candidate = settings.model_validate({**base, name: value})
        except ValidationError:
            continue
        if getattr(candidate, name) != field.default:
            changed.append(candidate)
    return changed


def with_part(part: BaseModel) -> RunConfig:
    """Return a run that has `part` as its data set, model or protocol."""
    run = run_config("two_moons")
    place = "protocol" if isinstance(part, Protocol) else "model" if type(part) in MODELS.values() else "dataset"
    return run.model_copy(update={place: part})


@pytest.mark.parametrize(("run", "key"), PINNED)
def test_the_keys_of_version_0_1_0_are_pinned(run, key):
    assert run.run_key == key


@pytest.mark.parametrize(("run", "key"), PINNED_KINDS)
def test_the_keys_of_other_kinds_are_pinned(run, key):
    assert run.run_key == key
    again = RunConfig.model_validate_json(run.model_dump_json())
    assert (again, again.run_key) == (run, key)
    assert run.canonical_json() == json.dumps(json.loads(run.canonical_json()), sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("settings", [{}, {"prototypes": 3, "power": 8.0}, {"initialisation": "kmeans", "epochs": 7}])
def test_a_study_needs_the_run_with_the_same_settings_and_its_key(settings):
    study = run_config("two_moons", kind="patch_study", seed=5, **settings)
    assert study.required == run_config("two_moons", seed=5, **settings)
    assert study.required.run_key == run_config("two_moons", seed=5, **settings).run_key != study.run_key


def test_every_run_that_version_0_1_0_stored_has_its_key_and_its_json():
    with closing(sqlite3.connect(f"file:{ASSETS / '0.1.0' / 'idwbench.db'}?immutable=1", uri=True)) as database:
        stored = database.execute("SELECT run_key, config FROM runs").fetchall()
    assert len(stored) == 18
    for key, config in stored:
        run = RunConfig.model_validate_json(config)
        assert run.run_key == key
        assert run.model_dump(mode="json") == json.loads(config)


def test_settings_have_been_added():
    assert {name for _, _, name in ADDED} >= {"validation", "task", "initialisation", "momentum", "weight_decay"}


@pytest.mark.parametrize(("settings", "base", "name"), ADDED)
def test_a_setting_that_was_added_is_left_out_at_its_default(settings, base, name):
    default = settings.model_validate(base)
    assert name not in default.model_dump(mode="json")
    assert name not in json.loads(default.model_dump_json())
    explicit = settings.model_validate({**base, name: settings.model_fields[name].default})
    assert with_part(explicit).run_key == with_part(default).run_key


@pytest.mark.parametrize(("settings", "base", "name"), ADDED)
def test_a_setting_that_was_added_counts_where_it_is_not_the_default(settings, base, name):
    default = with_part(settings.model_validate(base))
    others = other_values(settings, base, name)
    # A data set whose task is fixed has no other value.
    assert others or get_args(settings.model_fields[name].annotation) == (settings.model_fields[name].default,)
    for other in others:
        run = with_part(other)
        assert run.run_key != default.run_key
        again = RunConfig.model_validate_json(run.model_dump_json())
        assert (again, again.run_key) == (run, run.run_key)


def test_the_place_of_a_file_is_not_part_of_the_key():
    here, there = (run_config(CsvConfig(path=path, sha256="ab" * 32)) for path in ("a/x.csv", "b/y.csv"))
    assert here.run_key == there.run_key


def slow_key(run: RunConfig) -> str:
    content = run.model_dump(mode="json")
    content["dataset"].pop("path", None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return hashlib.sha256(f"idwbench-run-1\n{text}".encode()).hexdigest()


@pytest.mark.parametrize(("run", "key"), PINNED + PINNED_KINDS)
def test_a_run_with_another_seed_has_the_key_that_it_has_alone(run, key):
    for seed in (0, 5, 2**32 - 1):
        other, alone = run.with_seed(seed), run.model_copy(update={"seed": seed})
        assert other == alone
        assert other.run_key == other.run_key == alone.run_key == slow_key(alone)
        assert other.with_seed(run.seed).run_key == run.run_key == key


def test_a_copy_does_not_take_over_the_key():
    run = run_config("two_moons", seed=3)
    assert run.run_key
    other = run.model_copy(update={"protocol": run.protocol.model_copy(update={"epochs": 7})})
    assert other.run_key == run_config("two_moons", seed=3, epochs=7).run_key == slow_key(other)
    again = pickle.loads(pickle.dumps(run))
    assert (again, again.run_key) == (run, run.run_key)
    assert dict(run) == dict(run_config("two_moons", seed=3))


def test_runs_have_the_key_of_their_setting_in_common_whatever_their_seed():
    first = run_config("two_moons", seed=3)
    others = [first.with_seed(4), run_config("two_moons", seed=5), first.model_copy(update={"seed": 6})]
    assert {run.setting_key for run in others} == {first.setting_key}
    changed = [run_config("two_moons", power=3.0), run_config("two_moons", epochs=7), run_config("iris")]
    assert len({run.setting_key for run in (first, *changed)}) == 4
