from __future__ import annotations

import psutil
import pytest

from idwbench import machine
from idwbench.data.loading import check_size
from idwbench.errors import ConfigError, DatasetError
from idwbench.machine import check_memory, free_memory
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset
from idwbench.runs.kinds.models import MODELS

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
        check_memory(10**10 + 1, lambda: "it", ConfigError, ("a", "b"))
    monkeypatch.setattr(machine, "free_memory", lambda: pytest.fail("looked up"))
    check_memory(2**30 - 1, "it", ConfigError)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("two_moons", "train_per_class"),
        ("two_moons", "test_per_class"),
        ("two_moons", "holdout_per_class"),
        ("sine", "train_size"),
        ("friedman1", "holdout_size"),
        ("lookup", "items"),
        ("lookup", "queries"),
        ("lookup", "validation"),
    ],
)
def test_a_data_set_that_does_not_fit_is_refused_at_its_largest_setting(name, setting, free):
    free(16 * 10**9)
    check_size(parse_dataset(name))
    with pytest.raises(
        DatasetError, match=rf"^{setting}: the data set {name} needs .* of memory, and 16.0 GB are free"
    ):
        check_size(parse_dataset({"name": name, setting: HUGE}))


SIZES = [
    ("two_moons", {}, "prototypes"),
    ("two_moons", {"kind": "patch_study"}, "prototypes"),
    ("digits", {"kind": "network", "encoder": "mlp"}, "width"),
    ("digits", {"kind": "network", "encoder": "mlp"}, "depth"),
    ("digits", {"kind": "network", "encoder": "conv"}, "depth"),
    ("digits", {"kind": "network", "encoder": "conv"}, "width"),
    ("digits", {"kind": "network", "encoder": "vit_tiny"}, "depth"),
    ("digits", {"kind": "mlp"}, "width"),
    ("aesop", {"kind": "transformer_lm"}, "width"),
    ("aesop", {"kind": "transformer_lm"}, "depth"),
    ("aesop", {"kind": "transformer_lm"}, "batch_size"),
    ("aesop", {"kind": "lstm_lm"}, "width"),
    ("aesop", {"kind": "lstm_lm"}, "embedding"),
    ("aesop", {"kind": "lstm_lm"}, "batch_size"),
]


@pytest.mark.parametrize(("dataset", "settings", "setting"), SIZES)
def test_each_size_of_a_model_counts(dataset, settings, setting):
    """Even beyond 2**2_000_000_000, for which there is no time, the bound is a number."""

    def numbers(**changed):
        config = run_config(dataset, **settings, **changed)
        return config.model.numbers_in_memory(64, 10, 1500, config.protocol.batch_size)

    assert numbers() < 2**28 < 10**10 < numbers(**{setting: HUGE})


def test_prototypes_in_the_head_of_a_network_count():
    config = run_config("digits", kind="network", encoder="mlp", head="idw", prototypes=HUGE)
    assert config.model.numbers_in_memory(64, 10, 1500, 16) > 10**10


def test_projections_of_a_hash_table_count():
    config = run_config("lookup", kind="hash_table", similarity="idw", projections="mlp")
    assert config.model.numbers_in_memory(10**6, 1, 64, 1) > 10**12


def test_the_shipped_kinds_without_a_size_need_nothing():
    without = {"kernel_regression", "baseline"}
    assert without < MODELS.keys()
    for kind in without:
        settings = {"kind": kind, **({"method": "kmeans"} if kind == "baseline" else {})}
        assert run_config("two_moons", **settings).model.numbers_in_memory(2, 2, 200, 10) == 0
