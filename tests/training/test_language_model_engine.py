from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from engine_runs import train_run
from texts import SCORES, TEXT, text_dataset, text_file, text_run

from idwbench.errors import ConfigError
from idwbench.models.text_model import text_model_from_arrays
from idwbench.runs.metrics import headline_metric
from idwbench.runs.results import RunResult
from idwbench.training.engine import Context
from idwbench.training.language_model_engine import ENGINES, random_windows

METRIC = "bits_per_character"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return text_file(tmp_path)


def trained(path: Path, seed: int = 0, kept: Path | None = None, on_epoch=lambda epoch: None, **settings):
    context = {"checkpoint_folder": kept, "report": pytest.fail, "on_epoch": on_epoch}
    return train_run(text_run(path, seed, **settings), text_dataset(path), **context)


def assert_same_bytes(one: RunResult, other: RunResult) -> None:
    assert one.arrays.keys() == other.arrays.keys()
    assert all(one.arrays[name].tobytes() == other.arrays[name].tobytes() for name in one.arrays)
    assert one.curve == other.curve
    measured = ("train", "seconds_per_step")
    without_time = [{k: v for k, v in run.metrics.items() if k != measured} for run in (one, other)]
    assert without_time[0] == without_time[1]


def test_windows_are_consecutive_rows_and_every_row_is_in_some():
    batches = random_windows(10, 4, 3)
    seen = set()
    for seed in range(20):
        drawn = [*batches(np.random.default_rng(seed), 0)]
        assert [part.shape for part in drawn] == [(3, 4)]  # 10 rows are less than one batch of 3 windows
        assert all((np.diff(part, axis=1) == 1).all() and part.min() >= 0 for part in drawn)
        seen |= set(np.concatenate(drawn).ravel().tolist())
    assert seen == set(range(10))


def test_an_epoch_has_as_many_characters_as_the_text():
    batches = [*random_windows(1000, 8, 5)(np.random.default_rng(0), 0)]
    assert sum(part.size for part in batches) == 1000


def test_a_text_that_repeats_itself_is_learned(path):
    result = trained(path, epochs=12, learning_rate=0.02)
    assert result.state == "complete"
    assert result.metric(METRIC, "test") < 1.0 < result.curve[0].values["test", METRIC]
    assert result.metric(METRIC, "test") == result.curve[-1].values["test", METRIC]
    assert {split for split, name in result.metrics if name == METRIC} == {"train", "validation", "test"}
    assert headline_metric("language").name == METRIC


def test_training_lowers_the_loss_with_every_score(path):
    for score in SCORES:
        result = trained(path, method=score, epochs=2, learning_rate=0.01)
        losses = [point.values["train", "loss"] for point in result.curve]
        assert losses[-1] < losses[0] < np.log(16)
        assert result.n_parameters == sum(result.arrays[name].size for name in result.arrays if name != "vocabulary")


def test_training_bits_are_those_of_the_end_of_the_training_text(path):
    result = trained(path)
    text = TEXT * 10
    n_test, n_validation = 46, 41
    end = text[: len(text) - n_test - n_validation][-n_test - 1 :]
    model = text_model_from_arrays(result.config.model, result.arrays)
    assert model.bits_per_character(end) == result.metric(METRIC, "train")


def test_the_same_seed_gives_the_same_bytes(path):
    torch.manual_seed(1)
    first = trained(path)
    torch.manual_seed(2)
    assert_same_bytes(first, trained(path))
    other = trained(path, seed=1)
    assert other.arrays["head.weight"].tobytes() != first.arrays["head.weight"].tobytes()


class Interrupted(Exception):
    pass


def test_a_training_that_is_interrupted_and_continued_gives_the_same_bytes(path, tmp_path):
    kept = tmp_path / "checkpoints"

    def stop_after(last: int):
        def on_epoch(epoch: int) -> None:
            if epoch == last:
                raise Interrupted

        return on_epoch

    whole = trained(path, epochs=4)
    for epoch in (1, 3):
        with pytest.raises(Interrupted):
            trained(path, kept=kept, on_epoch=stop_after(epoch), epochs=4)
    epochs: list[int] = []
    assert_same_bytes(whole, trained(path, kept=kept, on_epoch=epochs.append, epochs=4))
    assert epochs == [4]
    ENGINES["transformer_lm"].stored([whole.config], Context(checkpoint_folder=kept))
    assert not kept.exists()


def test_a_training_that_diverges_has_no_arrays(path):
    result = trained(path, optimizer="sgd", learning_rate=1e30)
    assert (result.state, result.diverged_epoch, result.arrays, result.metrics) == ("diverged", 1, {}, {})


def test_a_text_that_is_shorter_than_the_context_gets_one_line(tmp_path):
    path = text_file(tmp_path, "abc" * 5)  # 12 characters for training: 11 rows
    assert trained(path, context=11).state == "complete"
    with pytest.raises(ConfigError) as error:
        trained(path, context=12)
    assert str(error.value) == "context: the training text is too short: 12 characters, expected more than 12"
