from __future__ import annotations

import json

import pytest

from idwbench.errors import ConfigError
from idwbench.runs import config
from idwbench.runs.config import RunConfig, run_config

RUNS = [
    run_config("two_moons", seed=3, method="idw", prototypes=16, power=2.5),
    run_config("two_moons", kind="kernel_regression", kernel="gaussian"),
    run_config("digits", kind="network", encoder="vit_tiny", attention="idw"),
    run_config({"name": "joint", "of": ["mnist", "fashion_mnist"]}, kind="mlp", momentum=0.5),
    run_config({"name": "digits", "validation": 0.1}, kind="baseline", method="kmeans"),
]


def stored(run: RunConfig, **changes: object) -> RunConfig:
    """Return a run as it is read from its JSON with other settings."""
    content = json.loads(run.canonical_json()) | changes
    return RunConfig.stored(json.dumps(content, sort_keys=True, separators=(",", ":")), run.run_key)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.model.kind)
def test_a_run_that_has_its_key_is_read_as_it_was_without_being_checked_again(run, monkeypatch):
    monkeypatch.setattr(RunConfig, "model_validate_json", None)
    again, run = stored(run), run.with_seed(0)
    assert again == run and type(again.model) is type(run.model) and type(again.dataset) is type(run.dataset)
    assert again.canonical_json() == run.canonical_json() and again.model_dump() == run.model_dump()


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.model.kind)
def test_settings_that_were_changed_are_checked(run):
    protocol = run.protocol.model_dump()
    assert stored(run, protocol={**protocol, "epochs": 7}).protocol.epochs == 7
    with pytest.raises(ValueError, match="epochs"):
        stored(run, protocol={**protocol, "epochs": "many"})
    with pytest.raises(ConfigError, match="imagenet"):
        stored(run, dataset={"name": "imagenet"})


@pytest.mark.parametrize("text", ["{broken", "", "[1]", "{}", '{"dataset": 7}', "NaN"])
def test_a_text_without_settings_is_refused(text):
    with pytest.raises((ValueError, ConfigError)):
        RunConfig.stored(text, RUNS[0].run_key)


def test_settings_of_another_version_are_checked_though_they_have_their_key():
    run = RUNS[0]
    content = json.loads(run.canonical_json())
    content["protocol"]["lookahead"] = 5  # which a later version may have
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = config._KEY_START.copy()
    digest.update(text.encode())
    with pytest.raises(ValueError, match="lookahead"):
        RunConfig.stored(text, digest.hexdigest())
