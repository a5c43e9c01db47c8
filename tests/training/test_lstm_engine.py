"""Runs of kind lstm_lm: training, recording and what is stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_runs import train_run
from texts import lstm_run, text_dataset, text_file
from torch.nn import functional

from idwbench.dual.recording import open_recording
from idwbench.errors import ConfigError, RecordingError
from idwbench.models.text_model import load_language_model, ngram_bits_per_character
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.results import RunResult
from idwbench.sweep.execution import train


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return text_file(tmp_path)


def trained(path: Path, seed: int = 0, tokens: str = "characters", folder: Path | None = None, **settings):
    run = lstm_run(path, seed, tokens, **settings)
    return train_run(run, text_dataset(path, tokens=tokens), recording_folder=folder)


def parameters(result: RunResult) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in result.arrays.items() if name != "recording"}


@pytest.mark.parametrize("tokens", ["characters", "words"])
def test_a_text_that_repeats_itself_is_learned(path, tokens):
    result = trained(path, tokens=tokens, epochs=12, batch_size=2, optimizer="adam", learning_rate=0.05, momentum=0.0)
    dataset = text_dataset(path, tokens=tokens)
    splits = {"train", "validation", "test"}
    for metric in ("perplexity", "bits_per_character"):
        assert {split for split, name in result.metrics if name == metric} == splits
        assert result.metric(metric, "test") == result.curve[-1].values["test", metric]
    assert result.metric("perplexity", "test") < 3 < result.curve[0].values["test", "perplexity"]
    assert result.metric("bits_per_character", "test") < ngram_bits_per_character(dataset, 0)
    model = result.arrays
    assert result.n_parameters == sum(model[name].size for name in model if name != "vocabulary")


def test_the_same_seed_gives_the_same_bytes_also_when_it_is_recorded(path, tmp_path):
    plain, again = trained(path), trained(path)
    assert parameters(plain) == parameters(again) != parameters(trained(path, seed=1))
    recorded = trained(path, folder=tmp_path / "recordings", record=True)
    assert recorded.metrics.keys() == plain.metrics.keys()
    assert parameters(recorded) == parameters(plain)
    assert recorded.curve == plain.curve and recorded.config.run_key != plain.config.run_key


def test_words_and_their_model_survive_the_database(path, tmp_path):
    run = train(lstm_run(path, tokens="words"), tmp_path / "results.db")
    path.unlink()
    loaded = load_language_model(Results(tmp_path / "results.db", read_only=True), run.run_key)
    assert loaded.vocabulary[:4] == ("<unk>", "!", ".", "a")
    assert set(loaded.tokenizer.split(loaded.generate("the cat", 20))) <= set(loaded.vocabulary)


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-4), ("float16", 3e-3)])
def test_a_recorded_run_is_attention_over_its_training(path, tmp_path, dtype, bound):
    run = train(lstm_run(path, record=True, record_dtype=dtype), tmp_path / "results.db")
    results = Results(tmp_path / "results.db", read_only=True)
    model = load_language_model(results, run.run_key).network
    recording = open_recording(results, run)
    assert set(recording.layers) == {"lstm.input", "lstm.recurrent", "head"}
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
        assert np.abs(recording.layers[name].answers(queries) - expected).max() < bound


class Interrupted(Exception):
    pass


def test_a_recorded_training_that_is_interrupted_continues_to_the_same_bytes(path, tmp_path):
    def trained_in(name: str, **settings) -> RunResult:
        lines: list[str] = []
        folders = {"checkpoint_folder": tmp_path / f"{name}_checkpoints", "recording_folder": tmp_path / name}
        result = train_run(run, dataset, **folders, report=lines.append, **settings)
        assert len(lines) == 1 and lines[0].startswith("the recording of run ")  # and none on a checkpoint
        return result

    def stop(epoch: int) -> None:
        raise Interrupted

    run, dataset = lstm_run(path, record=True, epochs=3), text_dataset(path)
    whole = trained_in("whole")
    with pytest.raises(Interrupted):
        trained_in("parts", on_epoch=stop)
    assert [folder.suffix for folder in (tmp_path / "parts").iterdir()] == [".partial"]
    parts = trained_in("parts")
    assert {**parameters(whole)} == {**parameters(parts)}
    for file in (tmp_path / "whole" / run.run_key).iterdir():
        assert file.read_bytes() == (tmp_path / "parts" / run.run_key / file.name).read_bytes()


def test_a_training_that_diverges_leaves_no_recording(path, tmp_path):
    result = trained(path, folder=tmp_path / "recordings", record=True, learning_rate=3e37, gradient_clip=0.0)
    assert (result.state, result.arrays, result.metrics) == ("diverged", {}, {})
    assert list((tmp_path / "recordings").iterdir()) == []


def test_a_recording_needs_a_folder(path):
    with pytest.raises(RecordingError, match="a recording needs a database in a file"):
        trained(path, record=True)


def test_a_text_that_is_shorter_than_the_context_gets_one_line(tmp_path):
    path = text_file(tmp_path, "one two three four five six seven")
    with pytest.raises(ConfigError) as error:
        trained(path, tokens="words", context=8)
    assert str(error.value) == "context: the training text is too short: 5 words, expected more than 8"


@pytest.mark.parametrize(
    ("settings", "location", "problem"),
    [
        ({"width": 0}, ("width",), "greater than or equal to 1"),
        ({"record_dtype": "float16"}, ("record_dtype",), "only with record: true"),
        ({"record_dtype": "float32"}, ("record_dtype",), "only with record: true"),
        ({"record": True, "record_dtype": "float64"}, ("record_dtype",), "input should be 'float32' or 'float16'"),
        ({"method": "idw"}, ("method",), "unknown key"),
    ],
)
def test_settings_that_are_not_valid_get_one_line(settings, location, problem):
    with pytest.raises(ConfigError) as error:
        parse_model({"kind": "lstm_lm", **settings})
    assert error.value.location == location and problem in error.value.problem


def test_labels_say_what_differs():
    plain = parse_model({"kind": "lstm_lm"})
    assert isinstance(plain, LstmConfig)
    assert (plain.method, plain.label) == ("lstm", "lstm_lm · embedding 64, width 128, context 64")
    recorded = parse_model({"kind": "lstm_lm", "record": True, "record_dtype": "float16"})
    assert recorded.parameters_label == "embedding 64, width 128, context 64, recorded in float16"


def test_an_lstm_needs_a_text():
    with pytest.raises(ConfigError, match="lstm_lm needs a text, and the data set digits is none"):
        run_config("digits", kind="lstm_lm")
