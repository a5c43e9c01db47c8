from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from idwbench.config import Protocol, parse_run
from idwbench.data.dataset import Split
from idwbench.engine.fused_engine import FusedEngine
from idwbench.engine.kernels import jit
from idwbench.engine.kernels.elementary import exp32, log32
from idwbench.initialisation import feature_moments
from idwbench.methods import METHODS

PROTOCOL = Protocol(epochs=4, batch_size=5, learning_rate=0.01)
# Trains every method on a handful of points, and prints losses, keys and values.
TINY = """
import warnings; warnings.simplefilter("error")
import numpy as np
from idwbench.config import Protocol, TwoMoonsConfig, parse_run
from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.engine.fused_engine import FusedEngine
from idwbench.initialisation import feature_moments
from idwbench.methods import METHODS
generator = np.random.default_rng(0)
for n_features in (2, 17):
    split = Split(generator.normal(size=(6, n_features)).astype(np.float32), np.arange(6) % 2)
    dataset = Dataset(TwoMoonsConfig(), split, split, None, Scaling.identity(), None, ("a", "b"), "")
    for method in METHODS:
        config = parse_run(dataset.config, method, 3, Protocol(epochs=2, batch_size=4, learning_rate=0.1), 0)
        result = FusedEngine().train([config], dataset)[0]
        print(result.curve[-1].train_loss, *result.keys.ravel(), *result.values.ravel())
"""


def runs(dataset, method="idw", seeds=range(4), prototypes=6):
    return [parse_run(dataset.config, method, prototypes, PROTOCOL, seed) for seed in seeds]


def train_tiny(**environment):
    done = subprocess.run(
        [sys.executable, "-c", TINY], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), dtype=float)


def same(one, other):
    return (
        one.keys.tobytes() == other.keys.tobytes()
        and one.values.tobytes() == other.values.tobytes()
        and one.curve == other.curve
        and one.train_accuracy == other.train_accuracy
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_bit_for_bit_the_same_alone_or_among_threads(blobs, method):
    engine, stack = FusedEngine(), runs(blobs, method)
    alone = [FusedEngine().train([config], blobs)[0] for config in stack]
    with ThreadPoolExecutor(4) as pool:
        crowd = list(pool.map(lambda config: engine.train([config], blobs)[0], stack[::-1] * 3))
    for position, result in enumerate(crowd):
        assert same(result, alone[::-1][position % len(stack)])


def test_accuracies_are_those_of_the_returned_tensors(blobs):
    result = FusedEngine().train(runs(blobs, "scaled_dot"), blobs)[0]
    for split, accuracy in (
        (blobs.train, result.train_accuracy),
        (blobs.test, result.test_accuracy),
        (blobs.holdout, result.holdout_accuracy),
    ):
        scores = split.inputs @ result.keys.T / np.sqrt(3)
        weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        assert accuracy == np.mean((weights @ result.values).argmax(1) == split.labels)


def test_many_epochs_in_one_call_equal_one_call_an_epoch(blobs, monkeypatch):
    together = FusedEngine().train(runs(blobs), blobs)[0]
    monkeypatch.setattr("idwbench.engine.fused_engine.CALL_NUMBERS", 1)
    assert same(FusedEngine().train(runs(blobs), blobs)[0], together)


def test_moments_in_blocks_equal_moments_at_once():
    inputs = np.random.default_rng(0).normal(3, 5, size=(1001, 150)).astype(np.float32)
    mean, std = feature_moments(inputs)
    np.testing.assert_array_equal(mean, inputs.mean(0, dtype=np.float64))
    np.testing.assert_array_equal(std, inputs.std(0, ddof=1, dtype=np.float64))


def test_data_that_may_not_be_written_is_trained_on_and_left_alone(blobs):
    before = blobs.train.inputs.copy()
    expected = FusedEngine().train(runs(blobs), blobs)[0]
    blobs.train.inputs.flags.writeable = False
    assert same(FusedEngine().train(runs(blobs), blobs)[0], expected)
    np.testing.assert_array_equal(blobs.train.inputs, before)


def test_labels_beyond_the_classes_are_refused(blobs):
    for split in ("train", "test", "holdout"):
        shifted = Split(blobs.train.inputs, blobs.train.labels + 1)
        with pytest.raises(ValueError, match="labels from 0 to 2"):
            dataclasses.replace(blobs, **{split: shifted})


def test_arrays_that_kernels_would_misread_are_refused(blobs):
    inputs, labels = blobs.train.inputs, blobs.train.labels
    for wrong in (
        (inputs[:5], labels),
        (inputs.astype(np.float64), labels),
        (inputs, labels.astype(np.int32)),
        (np.asfortranarray(inputs), labels),
        (inputs[:0], labels[:0]),
    ):
        with pytest.raises(ValueError, match=r"split|expected"):
            Split(*wrong)
    narrow = Split(np.ascontiguousarray(inputs[:, :2]), labels)
    with pytest.raises(ValueError, match="expected 3 features"):
        dataclasses.replace(blobs, test=narrow)


def test_a_method_without_a_kernel_is_refused(blobs):
    config = runs(blobs)[0].model_copy(update={"plugin_sha256": "0" * 64})
    assert not FusedEngine.supports(config)
    with pytest.raises(ValueError, match="no kernel"):
        FusedEngine().train([config], blobs)


def test_every_built_in_method_has_a_kernel(blobs):
    assert all(FusedEngine.supports(runs(blobs, method)[0]) for method in METHODS)


@pytest.fixture(scope="module")
def compiled_numbers():
    return train_tiny()


def test_kernels_give_the_same_without_the_compiler(compiled_numbers):
    numbers = train_tiny(NUMBA_DISABLE_JIT="1")
    # Compiled sums run in another order, and Adam makes more of that where a gradient is nearly 0.
    np.testing.assert_allclose(numbers, compiled_numbers, rtol=1e-3, atol=1e-3)


def test_kernels_work_where_no_cache_can_be_written(compiled_numbers, tmp_path):
    (tmp_path / "file").write_text("")
    assert jit.cache_folder(str(tmp_path / "file")) is None
    np.testing.assert_array_equal(train_tiny(NUMBA_CACHE_DIR=str(tmp_path / "file")), compiled_numbers)


def test_a_cache_with_flipped_bytes_is_emptied_and_filled_again(compiled_numbers, tmp_path):
    FusedEngine.prepare()
    if jit.CACHE_FOLDER is None or not any(jit.CACHE_FOLDER.glob("*/*.nbc")):
        train_tiny(NUMBA_CACHE_DIR=str(tmp_path))
    else:
        shutil.copytree(jit.CACHE_FOLDER, tmp_path / jit.CACHE_FOLDER.name)
    for file in tmp_path.glob("*/*/*.nbc"):
        content = bytearray(file.read_bytes())
        content[10:400] = bytes(255 - byte for byte in content[10:400])
        file.write_bytes(content)
    np.testing.assert_array_equal(train_tiny(NUMBA_CACHE_DIR=str(tmp_path)), compiled_numbers)
    assert any(tmp_path.glob("*/*/*.nbc"))


@pytest.mark.parametrize("error", [OSError, EOFError, pickle.UnpicklingError, UnicodeDecodeError])
def test_a_damaged_cache_or_a_full_disk_is_survived(error, tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "CACHE_FOLDER", tmp_path)
    damaged = tmp_path / "sub" / f"kernel.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    damaged.parent.mkdir()
    damaged.write_bytes(b"half an ind")

    def first_call():
        if damaged.exists():
            raise error(*(("utf-8", b"", 0, 1, "") if error is UnicodeDecodeError else ()))

    assert jit.cache_holds_code()
    jit.with_sound_cache(first_call)
    assert not damaged.exists()


def test_only_the_first_run_needs_compiling():
    FusedEngine.prepare()
    assert not FusedEngine.needs_compiling()


def test_machine_code_is_kept_in_a_folder_named_by_the_sources(tmp_path):
    folder = jit.cache_folder(str(tmp_path))
    assert folder is not None
    assert folder.parent == tmp_path
    assert folder.name.startswith("kernels-")


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


def test_exp_and_log_are_within_two_units_in_the_last_place():
    numbers, results = elementwise(exps, np.linspace(-87, 88, 200_001))
    np.testing.assert_allclose(results, np.exp(numbers), rtol=2.5e-7)
    numbers, results = elementwise(logs, np.exp(np.linspace(-87, 88, 200_001)))
    np.testing.assert_allclose(results, np.log(numbers), rtol=2.5e-7, atol=1e-7)


def test_exp_and_log_keep_nan_and_infinity():
    _, results = elementwise(exps, [-np.inf, np.inf, np.nan, 0])
    np.testing.assert_array_equal(results, [0, np.inf, np.nan, 1])
    _, results = elementwise(logs, [np.inf, np.nan, 1])
    np.testing.assert_array_equal(results, [np.inf, np.nan, 0])
