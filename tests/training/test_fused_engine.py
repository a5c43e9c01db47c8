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
import torch
from blob_data import make_dataset, make_regression
from engine_runs import train_run, train_runs
from float64_loop import assert_near_float64
from starts import random_prototypes, small_runs

from idwbench.attention.forward import attend
from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Split, feature_moments
from idwbench.runs.config import run_config
from idwbench.training import fused_engine
from idwbench.training.engine import Context, batch_order, batch_orders
from idwbench.training.kernel_runs import KernelRun
from idwbench.training.kernels import jit
from idwbench.training.kernels.denormals import CAN_FLUSH, flush_denormals, restore_denormals
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


@pytest.fixture
def with_validation(blobs):
    return dataclasses.replace(blobs, validation=Split(blobs.test.inputs[::2].copy(), blobs.test.labels[::2].copy()))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_bit_for_bit_the_same_alone_or_among_threads(blobs, method):
    stack = runs(method)
    alone = [train_run(config, blobs, engine="fused") for config in stack]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda config: train_run(config, blobs, engine="fused"), stack[::-1] * 3))
    for position, result in enumerate(results):
        assert same(result, alone[::-1][position % len(stack)])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_metrics_are_those_of_the_returned_arrays(with_validation, task):
    dataset = with_validation if task == "classification" else make_regression()
    result = train_runs(runs("scaled_dot", [0]), dataset, engine="fused")[0]
    expected = {}
    for name, split in dataset.splits.items():
        tensors = map(torch.from_numpy, (split.inputs, result.arrays["keys"], result.arrays["values"]))
        expected |= dataset.metrics(name, attend(*tensors, "scaled_dot").numpy())
    assert result.metrics.keys() == expected.keys()
    assert {split for split, _ in expected} == dataset.splits.keys()
    for key, value in expected.items():
        assert result.metrics[key] == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_curve_ends_at_the_headline_metrics_of_test_and_validation(with_validation, task):
    dataset, headline = (with_validation, "accuracy") if task == "classification" else (make_regression(), "rmse")
    result = train_runs(runs(), dataset, engine="fused")[0]
    assert [point.epoch for point in result.curve] == [1, 2, 3, 4]
    for point in result.curve:
        evaluated = {("test", headline), ("validation", headline)}
        assert point.values.keys() == {("train", "learning_rate"), ("train", "loss"), *evaluated}
    for key in evaluated:
        # The metric inverts the scaling of outputs and targets, the curve scales their difference.
        assert result.curve[-1].values[key] == pytest.approx(result.metrics[key], rel=1e-5)


def test_without_validation_rows_there_are_no_validation_metrics(blobs):
    result = train_runs(runs(), blobs, engine="fused")[0]
    assert {split for point in result.curve for split, _ in point.values} == {"train", "test"}
    assert {split for split, _ in result.metrics} == {"train", "test", "holdout"}


def test_a_result_holds_its_number_of_parameters_and_the_processor_it_was_trained_on(blobs):
    result = train_runs(runs(), blobs, engine="fused")[0]
    assert result.n_parameters == 6 * 3 + 6 * 3
    assert (result.engine, result.device, result.threads) == ("fused", "cpu", 1)
    assert result.instruction_set == (os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name())


def test_many_epochs_in_one_call_equal_one_call_an_epoch(blobs, monkeypatch):
    together = train_runs(runs(), blobs, engine="fused")[0]
    monkeypatch.setattr("idwbench.training.fused_engine.CALL_NUMBERS", 1)
    assert same(train_runs(runs(), blobs, engine="fused")[0], together)


def test_moments_in_blocks_equal_moments_at_once():
    inputs = np.random.default_rng(0).normal(3, 5, size=(1001, 150)).astype(np.float32)
    mean, std = feature_moments(inputs)
    np.testing.assert_array_equal(mean, inputs.mean(0, dtype=np.float64))
    np.testing.assert_array_equal(std, inputs.std(0, ddof=1, dtype=np.float64))


def test_data_that_may_not_be_written_is_trained_on_and_left_alone(blobs):
    before = blobs.train.inputs.copy()
    expected = train_runs(runs(), blobs, engine="fused")[0]
    blobs.train.inputs.flags.writeable = False
    assert same(train_runs(runs(), blobs, engine="fused")[0], expected)
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
    config = runs()[0]
    model = config.model.model_copy(update={"plugin_sha256": "0" * 64})
    config = config.model_copy(update={"model": model})
    assert not fused_engine.has_kernel(config)
    with pytest.raises(ValueError, match="no kernel"):
        fused_engine.ENGINES["fused"].train([config], blobs, Context())


@pytest.mark.parametrize("n_features", [3, 20])
def test_a_run_of_a_stack_with_other_parameters_gives_the_bytes_of_the_run_alone(n_features):
    dataset = make_dataset(n_features=n_features)
    stack = [run for power in (3.0, 4.0) for run in runs(seeds=range(2), power=power)]
    together = train_runs(stack, dataset, engine="fused")
    assert len({result.arrays["keys"].tobytes() for result in together}) == len(stack)
    assert all(
        same(train_run(run, dataset, engine="fused"), result) for run, result in zip(stack, together, strict=True)
    )


def test_a_run_of_a_stack_that_diverges_leaves_the_others_alone(blobs, monkeypatch):
    monkeypatch.setattr("idwbench.training.fused_engine.CALL_NUMBERS", 1)
    monkeypatch.setattr("idwbench.training.kernel_runs.initial_prototypes", one_start_is_not_finite)
    first, second = train_runs(runs(seeds=[0, 1]), blobs, engine="fused")
    assert (first.state, first.diverged_epoch, first.curve) == ("diverged", 1, ())
    assert (second.state, len(second.curve)) == ("complete", SETTINGS["epochs"])
    assert same(second, train_runs(runs(seeds=[1]), blobs, engine="fused")[0])


def one_start_is_not_finite(model, dataset, moments, generator):
    keys, values = random_prototypes(model, dataset, moments, generator)
    is_first = np.random.default_rng(0).bit_generator.state["state"]["inc"]
    return (keys * np.nan if generator.bit_generator.state["state"]["inc"] == is_first else keys), values


def test_orders_of_epochs_drawn_at_once_are_those_drawn_one_by_one():
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    expected = [batch_order(one, 37) for _ in range(6)]
    np.testing.assert_array_equal(batch_orders(other, 37, 6), expected)
    assert one.bit_generator.state == other.bit_generator.state


def test_every_built_in_method_has_a_kernel():
    assert all(fused_engine.has_kernel(runs(method)[0]) for method in METHODS)


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["keys", "values"])
def test_a_run_that_is_not_finite_ends(blobs, method, number, where, monkeypatch):
    monkeypatch.setattr("idwbench.training.kernel_runs.initial_prototypes", random_prototypes)
    run = KernelRun(runs(method)[0], blobs, feature_moments(blobs.train.inputs))
    getattr(run, where)[0, 0, 0, 0] = number
    assert run.train_epochs(0, 2) == 0
    assert run.curve == []


@numba.njit
def product_of_a_denormal(number):
    """Return it, the control word before, and the word after it was restored."""
    before = flush_denormals()
    product = number[0] * number[1]
    restore_denormals(before)
    after = flush_denormals()
    restore_denormals(after)
    return product, before, after


@pytest.mark.slow
def test_denormals_are_zero_between_two_calls_only():
    numbers = np.array([1e-40, 4.0], np.float32)
    product, before, after = product_of_a_denormal(numbers)
    assert (product == 0) == CAN_FLUSH
    assert before == after
    assert numbers[0] * numbers[1] > 0


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


def test_machine_code_is_kept_in_a_folder_named_by_the_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    folder = jit.cache_folder.__wrapped__()
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
