from dataclasses import replace

import numpy as np
import psutil
import pytest
import torch
from texts import lstm_run, text_dataset, text_file

from idwbench import machine
from idwbench.data.dataset import Split
from idwbench.data.loading import check_size, load_dataset
from idwbench.errors import ConfigError, DatasetError
from idwbench.machine import allocation_problem, check_memory, free_memory
from idwbench.models.scikit_learn import check_data
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset
from idwbench.training.selection import check_run_memory

HUGE = 2_000_000_000


@pytest.fixture
def free(monkeypatch):
    """Say how many bytes are free."""
    return lambda number: monkeypatch.setattr(machine, "free_memory", lambda: number)


def test_free_memory_is_at_most_that_of_the_machine_and_of_its_container(tmp_path, monkeypatch):
    whole = psutil.virtual_memory().total + psutil.swap_memory().total
    assert 0 < free_memory() <= whole
    (tmp_path / "limit").write_text("4096\n")
    (tmp_path / "none").write_text("max\n")
    names = [str(tmp_path / name) for name in ("limit", "none", "absent")]
    monkeypatch.setattr(machine, "_LIMITS", names)
    assert free_memory() == 4096


def test_what_fits_passes_and_small_amounts_are_not_looked_up(free, monkeypatch):
    free(10**10)
    check_memory(10**10, "it", ConfigError)
    with pytest.raises(ConfigError, match=r"^a\.b: it needs 10\.0 GB of memory, and 10\.0 GB are free$"):
        check_memory(10**10 + 1, "it", ConfigError, ("a", "b"))
    monkeypatch.setattr(machine, "free_memory", lambda: pytest.fail("looked up"))
    check_memory(2**30 - 1, "it", ConfigError)


@pytest.mark.parametrize("name", ["two_moons.train_per_class", "sine.train_size", "lookup.queries"])
def test_a_data_set_that_does_not_fit_is_refused_at_its_largest_setting(name, free):
    free(16 * 10**9)
    data, setting = name.split(".")
    check_size(parse_dataset(data))
    with pytest.raises(
        DatasetError, match=rf"^{setting}: the data set {data} needs .* of memory, and 16.0 GB are free"
    ):
        check_size(parse_dataset({"name": data, setting: HUGE}))


MLP = {"kind": "network", "encoder": "mlp"}
SIZES = [
    ({}, "prototypes"),
    (MLP, "width"),
    ({**MLP, "head": "idw"}, "prototypes"),
    ({"kind": "mlp"}, "width"),
    ({"kind": "lstm_lm"}, "embedding"),
]


@pytest.mark.parametrize(("settings", "setting"), SIZES)
def test_an_absurd_size_of_a_model_or_of_its_batch_is_refused(settings, setting, free, tmp_path):
    free(16 * 10**9)
    text = text_file(tmp_path)
    is_text = settings.get("kind") == "lstm_lm"
    data = text_dataset(text) if is_text else load_dataset(parse_dataset("two_moons"))

    def config(**given):
        return lstm_run(text, **given) if is_text else run_config("two_moons", **settings, **given)

    check_run_memory(config(**{"prototypes": 16} if "head" in settings else {}), data)
    with pytest.raises(ConfigError, match=r" needs .* of memory, and 16.0 GB are free$"):
        check_run_memory(config(**{setting: HUGE}), data)


def test_the_pairs_of_an_analysis_of_neighbourhoods_are_counted(free):
    config = run_config("two_moons", kind="scikit_learn", method="nca_knn")
    data = load_dataset(config.dataset)
    check_data(config.model, data)
    many = replace(data, train=Split(np.zeros((60_000, 2), np.float32), np.zeros(60_000, np.int64)))
    free(16 * 10**9)
    with pytest.raises(ConfigError, match=r"^nca_knn · k=5 needs 86.4 GB of memory"):
        check_data(config.model, many)


@pytest.mark.parametrize("allocate", [np.zeros, torch.zeros, lambda n: bytearray(8 * n)])
@pytest.mark.parametrize("n", [2**48, 2**60])
def test_an_allocation_that_fails_is_known_by_its_error_and_other_errors_are_not_taken_for_it(allocate, n):
    with pytest.raises((MemoryError, RuntimeError, ValueError, OverflowError)) as caught:
        allocate(n)
    if not isinstance(caught.value, OverflowError):  # `bytearray` does not count so far
        problem = allocation_problem(caught.value)
        assert problem is not None and problem.startswith("out of memory") and "\n" not in problem
    for error in (ValueError("shapes differ"), RuntimeError("size mismatch"), KeyError("memory")):
        assert allocation_problem(error) is None
