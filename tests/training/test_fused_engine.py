"""Kernels: their cache, their arithmetic, and runs that are trained by them."""

from __future__ import annotations

import functools
import os
import pickle
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import llvmlite.binding
import numba
import numpy as np
import pytest
from blob_data import make_dataset
from engine_runs import train_run
from float64_loop import start_with
from kinds import prototypes_run

from idwbench.data.dataset import Split
from idwbench.training import fused_engine
from idwbench.training.engine import Context, batch_order, batch_orders
from idwbench.training.kernel_runs import KernelRun
from idwbench.training.kernels import jit
from idwbench.training.kernels.denormals import CAN_FLUSH
from idwbench.training.kernels.scores import exp32, log32


def trained(blobs, seed=0, **settings):
    """Return the bytes, the curve and the metrics of a run."""
    config = prototypes_run(blobs, seed=seed, **{"epochs": 4, "batch_size": 5, **settings})
    result = train_run(config, blobs, engine="fused")
    return [result.arrays[name].tobytes() for name in ("keys", "values")], result.curve, result.metrics


@pytest.mark.slow
@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_a_run_is_bit_for_bit_the_same_alone_or_among_threads(blobs, method):
    alone = [trained(blobs, seed, method=method) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda seed: trained(blobs, seed, method=method), [*range(4)] * 3)] == alone * 3


def test_epochs_in_one_call_equal_one_call_an_epoch_also_of_data_that_may_not_be_written(blobs, monkeypatch):
    together, before = trained(blobs), blobs.train.inputs.copy()
    monkeypatch.setattr("idwbench.training.fused_engine.CALL_NUMBERS", 1)
    blobs.train.inputs.flags.writeable = False
    assert trained(blobs) == together
    np.testing.assert_array_equal(blobs.train.inputs, before)


def test_a_result_names_the_processor_that_it_was_trained_on(blobs):
    result = train_run(prototypes_run(blobs), blobs, engine="fused")
    assert (result.engine, result.device, result.threads) == ("fused", "cpu", 1)
    assert result.instruction_set == (os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name())


INPUTS, LABELS = make_dataset().train.inputs, make_dataset().train.labels
MISREAD = [
    (INPUTS[:5], LABELS),
    (INPUTS.astype(np.float64), LABELS),
    (INPUTS, LABELS.astype(np.int32)),
    (np.asfortranarray(INPUTS), LABELS),
    (INPUTS[:0], LABELS[:0]),
    (np.ascontiguousarray(INPUTS[:, :2]), LABELS),
    (INPUTS, LABELS + 1),
]


@pytest.mark.parametrize(("inputs", "labels"), MISREAD)
@pytest.mark.parametrize("split", ["train", "test", "holdout"])
def test_arrays_that_kernels_would_misread_are_refused(blobs, split, inputs, labels):
    with pytest.raises(ValueError, match=r"split|expected"):
        replace(blobs, **{split: Split(inputs, labels)})


def test_a_method_without_a_kernel_is_refused(blobs):
    config = prototypes_run(blobs)
    model = config.model.model_copy(update={"plugin_sha256": "0" * 64})
    config = config.model_copy(update={"model": model})
    assert not fused_engine.has_kernel(config)
    with pytest.raises(ValueError, match="no kernel"):
        fused_engine.ENGINES["fused"].train([config], blobs, Context())


def test_orders_of_epochs_drawn_at_once_are_those_drawn_one_by_one():
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    expected = [batch_order(one, 37) for _ in range(6)]
    np.testing.assert_array_equal(batch_orders(other, 37, 6), expected)
    assert one.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["keys", "values"])
def test_a_run_that_is_not_finite_ends(blobs, method, number, where, monkeypatch):
    start_with(monkeypatch)
    run = KernelRun(prototypes_run(blobs, method), blobs, blobs.moments)
    getattr(run, where)[0, 0, 0, 0] = number
    assert run.train_epochs(0, 2) == 0
    assert run.curve == []


@pytest.mark.slow
@pytest.mark.parametrize("learning_rate", [0.01, 3e37])
def test_a_run_flushes_denormals_and_restores_the_setting(blobs, learning_rate):
    numbers = np.array([1e-40, 4.0], np.float32)
    run = KernelRun(prototypes_run(blobs, "fc_relu", learning_rate=learning_rate), blobs, blobs.moments)
    run.keys[0][2] = 1e-40
    run.train_epochs(0, 3)
    means = run.keys[0][1:3]
    is_denormal = (means != 0) & (np.abs(means) < np.finfo(np.float32).smallest_normal)
    assert not (CAN_FLUSH and is_denormal.any())
    assert numbers[0] * numbers[1] > 0


@pytest.fixture
def tiny_kernel(tmp_path, monkeypatch):
    """A kernel that compiles at once, and a function that loads it anew and calls it: what is kept lies on the disk."""
    (tmp_path / "tiny.py").write_text(
        "from idwbench.training.kernels import jit\n\n\n"
        "@jit.entry_kernel\ndef add_one(number):\n    return number + 1\n"
    )

    def outcome(cache):
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache))
        monkeypatch.setattr(jit, "cache_folder", functools.cache(jit.cache_folder.__wrapped__))
        held_code, results = jit.cache_holds_code(), []
        add_one = runpy.run_path(str(tmp_path / "tiny.py"))["add_one"]
        jit.with_repaired_cache(lambda: results.append(add_one(41)))
        return held_code, results, bool(add_one.compiled.stats.cache_hits)

    return outcome


@pytest.mark.slow
def test_kernels_work_where_no_cache_can_be_written(tiny_kernel, tmp_path):
    (tmp_path / "file").write_text("")
    assert tiny_kernel(tmp_path / "file") == (False, [42], False)
    assert jit.cache_folder() is None


@pytest.mark.slow
def test_a_cache_with_flipped_bytes_is_emptied_and_filled_again(tiny_kernel, tmp_path):
    assert tiny_kernel(tmp_path) == (False, [42], False)
    assert tiny_kernel(tmp_path) == (True, [42], True)
    (file,) = tmp_path.glob("*/*/*.nbc")
    content = bytearray(file.read_bytes())
    content[10:400] = bytes(255 - byte for byte in content[10:400])
    file.write_bytes(content)
    assert tiny_kernel(tmp_path) == (True, [42], False)
    assert tiny_kernel(tmp_path) == (True, [42], True)


@pytest.mark.parametrize(
    "error", [OSError(), EOFError(), pickle.UnpicklingError(), UnicodeDecodeError("a", b"", 0, 1, "")]
)
def test_training_survives_a_damaged_cache_and_a_full_disk(error, tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    damaged = tmp_path / "sub" / f"kernel.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    damaged.parent.mkdir()
    damaged.write_bytes(b"half an ind")

    def first_call():
        if damaged.exists():
            raise error

    assert jit.cache_holds_code()
    jit.with_repaired_cache(first_call)
    assert not damaged.exists()


IMPORTS = """
import idwbench.training.fused_engine, idwbench.training.kernels.epochs, idwbench.training.kernels.neighbours
"""


def test_importing_kernels_does_not_touch_the_cache_and_only_the_first_run_needs_compiling(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, env=environment)
    assert not [*tmp_path.iterdir()]
    fused_engine.prepare()
    assert not fused_engine.needs_compiling()


@numba.njit
def exps_and_logs(numbers, exps, logs):
    for i in range(len(numbers)):
        exps[i] = exp32(numbers[i])
        logs[i] = log32(exps[i])


@pytest.mark.slow
def test_exp_and_log_are_within_two_units_in_the_last_place_and_keep_nan_and_infinity():
    numbers = np.concatenate([np.linspace(-87, 88, 200_001), [0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    exps, logs = np.empty((2, len(numbers)), np.float32)
    exps_and_logs(numbers, exps, logs)
    exact = numbers[:-3].astype(np.float64)
    np.testing.assert_allclose(exps[:-3], np.exp(exact), rtol=2.5e-7)
    np.testing.assert_allclose(logs[:-3], np.log(exps[:-3].astype(np.float64)), rtol=2.5e-7, atol=1e-7)
    np.testing.assert_array_equal(exps[-4:], [1, np.inf, 0, np.nan])
    np.testing.assert_array_equal(logs[[-3, -1]], [np.inf, np.nan])
