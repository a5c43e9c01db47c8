"""Runs of language models: their windows, what they learn, and what is recorded of an LSTM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_runs import train_run
from texts import lstm_run, text_dataset, text_file, text_run
from torch.nn import functional

from idwbench.dual.recording import open_recording
from idwbench.errors import ConfigError
from idwbench.models.text_model import load_language_model, ngram_bits_per_character
from idwbench.results.store import Results
from idwbench.sweep.execution import train
from idwbench.training.language_model_engine import random_windows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return text_file(tmp_path)


def test_windows_are_consecutive_rows_and_every_row_is_in_some_and_as_many_as_in_the_text_in_an_epoch():
    seen = set()
    for seed in range(20):
        (drawn,) = random_windows(10, 4, 3)(np.random.default_rng(seed), 0)
        assert drawn.shape == (3, 4)  # 10 rows are less than one batch of 3 windows
        assert (np.diff(drawn, axis=1) == 1).all() and drawn.min() >= 0
        seen |= {*drawn.ravel().tolist()}
    assert seen == {*range(10)}
    assert sum(part.size for part in random_windows(1000, 8, 5)(np.random.default_rng(0), 0)) == 1000


def test_a_transformer_and_an_lstm_of_words_learn_a_text_that_repeats_itself(path):
    dataset, words = text_dataset(path), text_dataset(path, tokens="words")
    result = train_run(text_run(path, epochs=6, learning_rate=0.04), dataset)
    assert result.metric("bits_per_character") < 1.5 < ngram_bits_per_character(dataset, 0)
    settings = {"epochs": 8, "batch_size": 2, "optimizer": "adam", "learning_rate": 0.05, "momentum": 0.0}
    result = train_run(lstm_run(path, tokens="words", **settings), words)
    assert result.metric("perplexity") < 4 < result.curve[0].values["test", "perplexity"]
    assert result.metric("bits_per_character") < ngram_bits_per_character(words, 0)


def test_a_recorded_run_is_attention_over_its_training(path, tmp_path):
    run = train(lstm_run(path, record=True, gradient_clip=0.2), tmp_path / "results.db")
    results = Results(tmp_path / "results.db", read_only=True)
    model = load_language_model(results, run.run_key).network
    recording = open_recording(results, run)
    assert set(recording.layers) == {"lstm.input", "lstm.recurrent", "head"}
    # Both matrices of the LSTM share the gradients on disk.
    names = {file.name for file in recording.folder.glob("*.gradients.npy")}
    assert names == {"lstm.input.gradients.npy", "head.gradients.npy"}
    clips = np.load(recording.folder / "steps.npy")[:, 1]
    assert (clips < 1).any() and (clips == 1).any()  # gradients that were clipped, and others
    # Two epochs of whole windows: 372 rows make 12 batches of 4 windows of 8.
    assert len(recording.rows) == 2 * 12 * 32 and recording.rows.max() < len(text_dataset(path).train)
    weight_ih, weight_hh, bias_ih, bias_hh = model.lstm.all_weights[0]
    primal = {
        "lstm.input": (weight_ih, bias_ih),
        "lstm.recurrent": (weight_hh, bias_hh),
        "head": (model.head.weight, model.head.bias),
    }
    for name, (weight, bias) in primal.items():
        queries = np.random.default_rng(0).normal(size=(5, weight.shape[1])).astype(np.float32)
        expected = functional.linear(weight.new_tensor(queries), weight, bias).detach().numpy()
        assert np.abs(recording.layers[name].answers(queries) - expected).max() < 1e-4


@pytest.mark.parametrize(
    ("make", "text", "tokens", "message"),
    [
        (text_run, "abc" * 5, {}, "12 characters, expected more than 12"),
        (lstm_run, "one two three four five six seven", {"tokens": "words"}, "5 words, expected more than 12"),
    ],
)
def test_a_text_that_is_shorter_than_the_context_gets_one_line(tmp_path, make, text, tokens, message):
    path = text_file(tmp_path, text)
    dataset = text_dataset(path, **tokens)
    assert train_run(make(path, context=len(dataset.train), **tokens), dataset).state == "complete"
    with pytest.raises(ConfigError) as error:
        train_run(make(path, context=12, **tokens), dataset)
    assert str(error.value) == f"context: the training text is too short: {message}"
