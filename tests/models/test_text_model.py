from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from texts import TEXT, random_model, text_file, text_run

from idwbench.data.text import build_vocabulary
from idwbench.errors import ConfigError, TrainingError
from idwbench.models.text_model import TextModel, load_language_model
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import train

NAMES = build_vocabulary(TEXT)


@pytest.fixture(scope="module")
def model() -> TextModel:
    return TextModel(random_model(len(NAMES)), NAMES)


def test_a_seed_decides_the_generated_text(model):
    first = model.generate("the ", 60, seed=3)
    assert len(first) == 60 and set(first) <= set(TEXT)
    assert first == model.generate("the ", 60, seed=3) != model.generate("the ", 60, seed=4)


def test_temperature_zero_takes_the_most_probable_character(model):
    text = "the "
    for _ in range(12):
        logits = model.logits(text[-8:])[-1]
        text += NAMES[1 + int(logits[1:].argmax())]
    assert model.generate("the ", 12, temperature=0) == text[4:]
    assert model.generate("the ", 12, seed=9, temperature=1e-300) == text[4:]


def test_characters_are_drawn_with_the_probabilities_of_the_model(model):
    weights = np.exp(model.logits("the cat")[-1, 1:].astype(np.float64) / 2)
    drawn = [model.generate("the cat", 1, seed=seed, temperature=2) for seed in range(200)]
    found = np.array([drawn.count(name) for name in NAMES[1:]]) / 200
    # Five standard errors of a share.
    np.testing.assert_allclose(found, weights / weights.sum(), atol=5 * math.sqrt(0.25 / 200))


def test_a_prompt_may_have_characters_that_are_not_in_the_vocabulary(model):
    assert len(model.generate("œ€", 5)) == 5
    assert model.generate("€", 20) == model.generate("œ", 20)


def test_bits_of_a_text_are_those_of_its_characters_after_the_first(model):
    logits = torch.from_numpy(model.logits("the ca")).double().log_softmax(-1)
    codes = [NAMES.index(c) for c in "he cat"]
    expected = -logits[range(6), codes].mean() / math.log(2)
    assert model.bits_per_character("the cat") == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.generate(""), "prompt: expected at least one character"),
        (lambda m: m.generate("a", -1), "length: expected a number from 0, got -1"),
        (lambda m: m.generate("a", temperature=-0.5), "temperature: expected a finite number from 0, got -0.5"),
        (lambda m: m.generate("a", temperature=math.nan), "temperature: expected a finite number from 0, got nan"),
        (lambda m: m.logits("a" * 9), "text: expected 1 to 8 characters, got 9"),
        (lambda m: m.bits_per_character("a"), "text: expected at least 2 characters, got 1"),
    ],
)
def test_impossible_requests_get_one_line(call, message, model):
    with pytest.raises(ConfigError) as error:
        call(model)
    assert str(error.value) == message


def test_a_stored_model_is_the_one_that_was_measured(tmp_path):
    path, db = text_file(tmp_path), tmp_path / "results.db"
    run = train(text_run(path), db)
    path.unlink()  # the arrays hold everything
    loaded = load_language_model(Results(db, read_only=True), run.run_key)
    text = TEXT * 10
    n_test = round(0.1 * len(text))
    assert loaded.bits_per_character(text[-n_test - 1 :]) == run.metric("bits_per_character", "test")
    assert set(loaded.vocabulary[1:]) == set(TEXT)


def test_only_complete_language_models_can_be_loaded(tmp_path):
    results = Results(tmp_path / "results.db")
    network = run_config("two_moons", prototypes=2)
    planned = text_run(text_file(tmp_path))
    results.plan([network, planned])
    with pytest.raises(TrainingError, match="a run of kind prototypes has no language model"):
        load_language_model(results, network.run_key)
    with pytest.raises(TrainingError, match="the run is planned: it has no language model"):
        load_language_model(results, planned.run_key)
