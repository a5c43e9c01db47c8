"""Kernels: their cache, their arithmetic, and runs that are trained by them."""

from __future__ import annotations

import dataclasses
import functools
import os
import pickle
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding
import numba
import numpy as np
import pytest
from blob_data import make_dataset
from engine_runs import train_run, train_runs
from float64_loop import assert_near_float64
from starts import random_prototypes, small_runs

from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Split, feature_moments
from idwbench.runs.config import run_config
from idwbench.training import fused_engine
from idwbench.training.engine import Context, batch_order, batch_orders
from idwbench.training.kernel_runs import KernelRun
from idwbench.training.kernels import jit
from idwbench.training.kernels.denormals import CAN_FLUSH
from idwbench.training.kernels.scores import exp32, log32

SETTINGS = {"prototypes": 6, "epochs": 4, "batch_size": 5, "learning_rate": 0.01}


def runs(method="idw", seeds=range(4), **settings):
    return [run_config("two_moons", method=method, seed=seed, **{**SETTINGS, **settings}) for seed in seeds]


def same(one, other):
    return (
        all(one.arrays[name].tobytes() == other.arrays[name].tobytes() for name in ("keys", "values"))
        and one.curve == other.curve
        and one.metrics == other.metrics
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_bit_for_bit_the_same_alone_or_among_threads(blobs, method):
    stack = runs(method)
    alone = [train_run(config, blobs, engine="fused") for config in stack]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda config: train_run(config, blobs, engine="fused"), stack[::-1] * 3))
    for position, result in enumerate(results):
        assert same(result, alone[::-1][position % len(stack)])


def test_a_result_holds_its_number_of_parameters_and_the_processor_it_was_trained_on(blobs):
    result = train_runs(runs(), blobs, engine="fused")[0]
    assert result.n_parameters == 6 * 3 + 6 * 3
    assert (result.engine, result.device, result.threads) == ("fused", "cpu", 1)
    assert result.instruction_set == (os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name())


def test_many_epochs_in_one_call_equal_one_call_an_epoch(blobs, monkeypatch):
    together = train_runs(runs(), blobs, engine="fused")[0]
    monkeypatch.setattr("idwbench.training.fused_engine.CALL_NUMBERS", 1)
    assert same(train_runs(runs(), blobs, engine="fused")[0], together)


def test_data_that_may_not_be_written_is_trained_on_and_left_alone(blobs):
    before = blobs.train.inputs.copy()
    expected = train_runs(runs(), blobs, engine="fused")[0]
    blobs.train.inputs.flags.writeable = False
    assert same(train_runs(runs(), blobs, engine="fused")[0], expected)
    np.testing.assert_array_equal(blobs.train.inputs, before)


INPUTS, LABELS = make_dataset().train.inputs, make_dataset().train.labels


@pytest.mark.parametrize(
    ("inputs", "labels"),
    [
        (INPUTS[:5], LABELS),
        (INPUTS.astype(np.float64), LABELS),
        (INPUTS, LABELS.astype(np.int32)),
        (np.asfortranarray(INPUTS), LABELS),
        (INPUTS[:0], LABELS[:0]),
        (np.ascontiguousarray(INPUTS[:, :2]), LABELS),
        (INPUTS, LABELS + 1),
    ],
)
def test_arrays_that_kernels_would_misread_are_refused(blobs, inputs, labels):
    for split in ("train", "test", "holdout"):
        with pytest.raises(ValueError, match=r"split|expected"):
            dataclasses.replace(blobs, **{split: Split(inputs, labels)})


def test_a_method_without_a_kernel_is_refused(blobs):
    config = runs()[0]
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
    monkeypatch.setattr("idwbench.training.kernel_runs.initial_prototypes", random_prototypes)
    run = KernelRun(runs(method)[0], blobs, feature_moments(blobs.train.inputs))
    getattr(run, where)[0, 0, 0, 0] = number
    assert run.train_epochs(0, 2) == 0
    assert run.curve == []


@pytest.mark.slow
@pytest.mark.parametrize("learning_rate", [0.01, 3e37])
def test_a_run_flushes_denormals_and_restores_the_setting(blobs, learning_rate):
    numbers = np.array([1e-40, 4.0], np.float32)
    run = KernelRun(runs("fc_relu", learning_rate=learning_rate)[0], blobs, feature_moments(blobs.train.inputs))
    run.keys[0][2] = 1e-40
    run.train_epochs(0, 4)
    means = run.keys[0][1:3]
    is_denormal = (means != 0) & (np.abs(means) < np.finfo(np.float32).smallest_normal)
    assert not (CAN_FLUSH and is_denormal.any())
    assert numbers[0] * numbers[1] > 0


# Prints the bytes of keys, values and losses.
INTERPRETED = """
import warnings; warnings.simplefilter("error")
import sys; sys.path[:0] = {path!r}
import numpy as np
from engine_runs import train_run
from starts import random_prototypes, small_runs
from idwbench.training import kernel_runs
kernel_runs.initial_prototypes = random_prototypes
for config, dataset in small_runs():
    result = train_run(config, dataset, engine="fused")
    losses = np.array([point.values["train", "loss"] for point in result.curve])
    print(*(array.astype(np.float64).tobytes().hex() for array in (*result.arrays.values(), losses)), *result.arrays)
"""


@pytest.mark.slow
def test_kernels_train_as_in_float64_without_the_compiler_too():
    program = INTERPRETED.format(path=[entry for entry in sys.path if "tests" in entry])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    for (config, dataset), line in zip(small_runs(), done.stdout.splitlines(), strict=True):
        *words, first, second = line.split()
        assert (first, second) == ("keys", "values")
        keys, values, losses = (np.frombuffer(bytes.fromhex(word)) for word in words)
        shapes = (-1, dataset.n_features), (-1, dataset.n_outputs)
        assert_near_float64(config, dataset, [[keys.reshape(shapes[0]), values.reshape(shapes[1]), losses]])


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
    (filled_again,) = tmp_path.glob("*/*/*.nbc")
    assert filled_again.read_bytes() != content
    assert tiny_kernel(tmp_path) == (True, [42], True)


@pytest.mark.parametrize("error", [OSError, EOFError, pickle.UnpicklingError, UnicodeDecodeError])
def test_training_survives_a_damaged_cache_and_a_full_disk(error, tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    damaged = tmp_path / "sub" / f"kernel.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    damaged.parent.mkdir()
    damaged.write_bytes(b"half an ind")

    def first_call():
        if damaged.exists():
            raise error(*(("utf-8", b"", 0, 1, "") if error is UnicodeDecodeError else ()))

    assert jit.cache_holds_code()
    jit.with_repaired_cache(first_call)
    assert not damaged.exists()


def test_only_the_first_run_needs_compiling():
    fused_engine.prepare()
    assert not fused_engine.needs_compiling()


IMPORTS = """
import idwbench.training.fused_engine, idwbench.training.kernels.epochs, idwbench.training.kernels.neighbours
"""


def test_importing_kernels_does_not_touch_the_cache(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, env=environment)
    assert not [*tmp_path.iterdir()]


@numba.njit
def exps(numbers, results):
    for i in range(len(numbers)):
        results[i] = exp32(numbers[i])


@numba.njit
def logs(numbers, results):
    for i in range(len(numbers)):
        results[i] = log32(numbers[i])


def elementwise(function, numbers):
    numbers = np.asarray(numbers, np.float32)
    results = np.empty_like(numbers)
    function(numbers, results)
    return numbers.astype(np.float64), results.astype(np.float64)


@pytest.mark.slow
def test_exp_and_log_are_within_two_units_in_the_last_place():
    numbers, results = elementwise(exps, np.linspace(-87, 88, 200_001))
    np.testing.assert_allclose(results, np.exp(numbers), rtol=2.5e-7)
    numbers, results = elementwise(logs, np.exp(np.linspace(-87, 88, 200_001)))
    np.testing.assert_allclose(results, np.log(numbers), rtol=2.5e-7, atol=1e-7)


@pytest.mark.slow
def test_exp_and_log_keep_nan_and_infinity():
    _, results = elementwise(exps, [-np.inf, np.inf, np.nan, 0])
    np.testing.assert_array_equal(results, [0, np.inf, np.nan, 1])
    _, results = elementwise(logs, [np.inf, np.nan, 1])
    np.testing.assert_array_equal(results, [np.inf, np.nan, 0])
