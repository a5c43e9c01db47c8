"""Run keys are for ever: stored results are found by them. Curves are their points."""

import hashlib
import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from engine_runs import train_run
from pydantic import ValidationError

from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import DATASETS, CsvConfig
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.protocol import Protocol
from idwbench.runs.results import Curve, CurvePoint, best_epoch_metrics

ASSETS = Path(__file__).parents[1] / "assets"
# [key, data set, settings], by the version that computed the keys first.
PINNED = [tuple(row) for rows in json.loads((ASSETS / "run_keys.json").read_text()).values() for row in rows]
REQUIRED = {"path": "x", "of": ["mnist", "fashion_mnist"]}
PROTOTYPES = {"method": "idw", "prototypes": 2, "parameters": {}}
NETWORK = {"encoder": "mlp", "width": 8, "depth": 1, "head": "idw", "prototypes": 2, "parameters": {"epsilon": 1e-3}}
TABLE, LANGUAGE_MODEL = {"similarity": "idw", "parameters": {}}, {"method": "idw", "parameters": {}}
KERNEL = {"kernel": "gaussian", "parameters": {"bandwidth": 0.5}}
OTHER_KINDS = {"network": NETWORK, "hash_table": TABLE, "transformer_lm": LANGUAGE_MODEL, "kernel_regression": KERNEL}
# One valid mapping for each class of settings; a momentum needs sgd.
BASES = [
    *(
        (dataset, {"name": name} | {key: value for key, value in REQUIRED.items() if key in dataset.model_fields})
        for name, dataset in DATASETS.items()
    ),
    (Protocol, {"epochs": 5, "batch_size": 2, "learning_rate": 0.1, "optimizer": "sgd"}),
    *((model, OTHER_KINDS.get(name, PROTOTYPES)) for name, model in MODELS.items()),
]
ADDED = [
    (settings, base, name)
    for settings, base in BASES
    for name, field in settings.model_fields.items()
    if "since" in (field.json_schema_extra or {})
]


def other_values(settings, base, name):
    """Return `base` with values of one setting that are valid and not its default."""
    field = settings.model_fields[name]
    changed = []
    for value in (*get_args(field.annotation), 1, 0.5, True, "sparsemax", ("width",)):
        try:
            candidate = settings.model_validate({**base, name: value})
        except ValidationError:
            continue
        if getattr(candidate, name) != field.default:
            changed.append(candidate)
    return changed


def with_part(part):
    """Return a run that has `part` as its data set, model or protocol."""
    run = run_config("two_moons")
    place = "protocol" if isinstance(part, Protocol) else "model" if type(part) in MODELS.values() else "dataset"
    return run.model_copy(update={place: part})


def canonical(content):
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def slow_key(run):
    content = run.model_dump(mode="json")
    content["dataset"].pop("path", None)
    return hashlib.sha256(f"idwbench-run-1\n{canonical(content)}".encode()).hexdigest()


@pytest.mark.parametrize(("key", "dataset", "settings"), PINNED)
def test_keys_are_pinned_with_every_seed(key, dataset, settings):
    run = run_config(dataset, **settings)
    assert run.run_key == key
    again = RunConfig.model_validate_json(run.model_dump_json())
    assert (again, again.run_key) == (run, key)
    assert run.canonical_json() == canonical(json.loads(run.canonical_json()))
    for seed in (0, 5, 2**32 - 1):
        other, alone = run.with_seed(seed), run.model_copy(update={"seed": seed})
        assert other == alone
        assert other.run_key == other.run_key == alone.run_key == slow_key(alone)
        assert {one.setting_key for one in (other, alone)} == {run.setting_key}
        assert other.with_seed(run.seed).run_key == run.run_key == key


@pytest.mark.parametrize(("dataset", "cases"), [("two_moons", "special"), ("iris", "wrong")])
@pytest.mark.parametrize("settings", [{}, {"prototypes": 3, "power": 8.0}, {"initialisation": "kmeans", "epochs": 7}])
def test_a_study_needs_the_run_that_train_would_make_with_its_key(dataset, cases, settings):
    of_study = {"kind": "patch_study", "cases": cases}
    study, run = (run_config(dataset, seed=5, **kind, **settings) for kind in (of_study, {}))
    assert study.required == run and study.required.run_key == run.run_key != study.run_key


def test_every_run_that_version_0_1_0_stored_has_its_key_and_its_json():
    with closing(sqlite3.connect(f"file:{ASSETS / '0.1.0' / 'idwbench.db'}?immutable=1", uri=True)) as database:
        stored = database.execute("SELECT run_key, config FROM runs").fetchall()
    assert len(stored) == 18
    for key, text in stored:
        run = RunConfig.model_validate_json(text)
        assert run.run_key == key
        assert run.model_dump(mode="json") == json.loads(text)


def test_settings_that_were_added_are_left_out_at_their_default_and_count_otherwise():
    assert {name for _, _, name in ADDED} >= {"validation", "task", "initialisation", "momentum", "weight_decay"}
    for settings, base, name in ADDED:
        field, default = settings.model_fields[name], settings.model_validate(base)
        assert name not in default.model_dump(mode="json")
        assert name not in json.loads(default.model_dump_json())
        explicit = settings.model_validate({**base, name: field.default})
        assert with_part(explicit).run_key == with_part(default).run_key
        others = other_values(settings, base, name)
        # A data set whose task is fixed has no other value.
        assert others or get_args(field.annotation) == (field.default,)
        for run in map(with_part, others):
            assert run.run_key != with_part(default).run_key and run.setting_key != with_part(default).setting_key
            again = RunConfig.model_validate_json(run.model_dump_json())
            assert (again, again.run_key) == (run, run.run_key)


def test_a_copy_does_not_take_over_the_key_nor_a_run_the_place_of_a_file():
    run = run_config("two_moons", seed=3)
    assert run.run_key
    other = run.model_copy(update={"protocol": run.protocol.model_copy(update={"epochs": 7})})
    assert other.run_key == run_config("two_moons", seed=3, epochs=7).run_key == slow_key(other)
    again = pickle.loads(pickle.dumps(run))
    assert (again, again.run_key) == (run, run.run_key)
    assert dict(run) == dict(run_config("two_moons", seed=3))
    here, there = (run_config(CsvConfig(path=path, sha256="ab" * 32)) for path in ("a/x.csv", "b/y.csv"))
    assert here.run_key == there.run_key


def test_a_curve_is_the_sequence_of_its_points():
    names = ("train", "loss"), ("test", "accuracy")
    curve = Curve(names, [2.0, 0.5, 1.0, 0.75, 0.5, 1.0])
    rows = ((1, 2.0, 0.5), (2, 1.0, 0.75), (3, 0.5, 1.0))
    points = tuple(CurvePoint(epoch, {names[0]: loss, names[1]: accuracy}) for epoch, loss, accuracy in rows)
    assert (len(curve), tuple(curve), curve[-1], curve[1:]) == (3, points, points[2], points[1:])
    assert curve == points and points[:2] != curve and Curve(names, [*curve.values[:-1], 0.0]) != curve


RUNS = [run_config(dataset, **settings) for _, dataset, settings in PINNED if "sha256" not in dataset]


def stored(run, **changes):
    """Return a run as it is read from its JSON with other settings."""
    return RunConfig.model_validate_json(canonical(json.loads(run.canonical_json()) | changes))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.model.kind)
def test_a_stored_run_is_read_as_it_was_and_one_that_was_changed_is_checked(run):
    protocol = run.protocol.model_dump()
    assert stored(run, protocol={**protocol, "epochs": 7}).protocol.epochs == 7
    for change, problem in (
        ({"protocol": {**protocol, "epochs": "many"}}, "epochs"),
        ({"dataset": {"name": "x"}}, "'x'"),
    ):
        with pytest.raises((ValueError, ConfigError), match=problem):
            stored(run, **change)
    again = stored(run)
    assert again == run and type(again.model) is type(run.model) and type(again.dataset) is type(run.dataset)
    assert again.canonical_json() == run.canonical_json() and again.model_dump() == run.model_dump()


def test_a_text_without_settings_or_with_those_of_another_version_is_refused():
    content = json.loads(RUNS[0].canonical_json())
    content["protocol"]["lookahead"] = 5  # which a later version may have
    for text in ("{broken", "", "[1]", "{}", '{"dataset": 7}', "NaN", canonical(content)):
        with pytest.raises((ValueError, ConfigError), match="lookahead" if "lookahead" in text else None):
            RunConfig.model_validate_json(text)


def test_the_best_epoch_is_the_first_of_the_best_on_validation_with_the_metric_of_each_split():
    def points(name, *rows):
        pairs = [("validation", name), ("test", name), ("train", "loss")]
        return [CurvePoint(epoch, dict(zip(pairs, row, strict=True))) for epoch, row in enumerate(rows, start=1)]

    accuracies = points("accuracy", (0.5, 0.9, 1), (0.8, 0.6, 2), (0.8, 0.7, 3))
    found = {("validation", "accuracy_at_best_epoch"): 0.8, ("test", "accuracy_at_best_epoch"): 0.6}
    assert best_epoch_metrics("classification", accuracies) == {("validation", "best_epoch"): 2.0, **found}
    errors = points("rmse", (0.5, 0.9, 1), (0.8, 0.6, 2))
    assert best_epoch_metrics("regression", errors)["validation", "best_epoch"] == 1
    assert best_epoch_metrics("classification", [CurvePoint(1, {("test", "accuracy"): 0.5})]) == {}
    for validation in (0, 8):
        run = run_config({"name": "two_moons", "train_per_class": 20, "validation": validation}, epochs=2)
        metrics = train_run(run, load_dataset(run.dataset)).metrics
        assert (("test", "accuracy_at_best_epoch") in metrics) == bool(validation)
