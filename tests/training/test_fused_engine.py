"""Kernels: their cache, their arithmetic, and runs that are trained by them."""

import functools
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import llvmlite.binding
import numba
import numpy as np
import pytest
import torch
from array_models import SCORE_SETTINGS
from blob_data import make_dataset
from engine_runs import train_run
from kinds import prototypes_run

from idwbench import PrototypeClassifier
from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Split
from idwbench.training import fused_engine
from idwbench.training.engine import Context
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
def test_a_run_is_bit_for_bit_the_same_alone_or_among_threads(blobs):
    alone = [trained(blobs, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda seed: trained(blobs, seed), [*range(4)] * 3)] == alone * 3


def test_epochs_in_one_call_equal_one_call_an_epoch_also_of_data_that_may_not_be_written(blobs, monkeypatch):
    together, before = trained(blobs), blobs.train.inputs.copy()
    monkeypatch.setattr("idwbench.training.fused_engine.CALL_NUMBERS", 1)
    blobs.train.inputs.flags.writeable = False
    assert trained(blobs) == together
    np.testing.assert_array_equal(blobs.train.inputs, before)


def test_arrays_that_kernels_would_misread_are_refused(blobs):
    inputs, labels = blobs.train.inputs, blobs.train.labels
    wrong_inputs = inputs[:5], inputs.astype(np.float64), np.asfortranarray(inputs), np.ascontiguousarray(inputs[:, :2])
    misread = [*((one, labels) for one in wrong_inputs), (inputs, labels.astype(np.int32)), (inputs, labels + 1)]
    for one, other in (*misread, (inputs[:0], labels[:0])):
        for split in blobs.splits:
            with pytest.raises(ValueError, match=r"split|expected"):
                replace(blobs, **{split: Split(one, other)})


def test_a_result_names_its_processor_and_a_method_without_a_kernel_is_refused(blobs):
    config = prototypes_run(blobs)
    result = train_run(config, blobs, engine="fused")
    assert result.instruction_set == (os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name())
    config = config.model_copy(update={"model": config.model.model_copy(update={"plugin_sha256": "0" * 64})})
    assert not fused_engine.has_kernel(config)
    with pytest.raises(ValueError, match="no kernel"):
        fused_engine.ENGINES["fused"].train([config], blobs, Context())


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
    """A function that loads a kernel that compiles at once: what is kept lies in its cache."""
    (tmp_path / "tiny.py").write_text(
        "from idwbench.training.kernels import jit\n\n\n"
        "@jit.entry_kernel\ndef add_one(number):\n    return number + 1\n"
    )

    def load(cache, source=tmp_path / "tiny.py"):
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache))
        monkeypatch.setattr(jit, "cache_folder", functools.cache(jit.cache_folder.__wrapped__))
        return runpy.run_path(str(source))["add_one"]

    return load


SAID = r"compiling kernels, {}: about half a minute of one core\ncompiled in \d+ s\n"


@pytest.mark.slow
def test_a_cache_with_flipped_bytes_is_emptied_and_filled_again_and_none_is_needed(tiny_kernel, tmp_path, capsys):
    def is_loaded(*places, often="once for this installation"):
        add_one, results = tiny_kernel(*places), []
        jit.with_repaired_cache(lambda: results.append(add_one(41)))
        is_hit = bool(add_one.compiled.stats.cache_hits)
        assert results == [42] and re.fullmatch("" if is_hit else SAID.format(often), capsys.readouterr().err)
        return is_hit

    assert not is_loaded(tmp_path)
    assert is_loaded(tmp_path)
    (file,) = tmp_path.glob("*/*/*.nbc")
    content = bytearray(file.read_bytes())
    content[10:400] = bytes(255 - byte for byte in content[10:400])
    file.write_bytes(content)
    assert not is_loaded(tmp_path)
    assert is_loaded(tmp_path)
    other = tmp_path / "other_environment" / "tiny.py"
    other.parent.mkdir()
    shutil.copyfile(tmp_path / "tiny.py", other)
    assert not is_loaded(tmp_path, other)
    assert not is_loaded(file, often="in each process, as no cache can be written")  # a file is no folder
    assert jit.cache_folder() is None


def test_importing_kernels_does_not_touch_the_cache(tmp_path):
    imports = "import idwbench.training.fused_engine, idwbench.training.kernels.epochs"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", imports], check=True, env=environment)
    assert not [*tmp_path.iterdir()]


def test_estimators_say_once_on_stderr_that_kernels_are_compiled(tiny_kernel, tmp_path, monkeypatch, capsys):
    fused_engine.prepare()
    capsys.readouterr()
    add_one = tiny_kernel(tmp_path)
    monkeypatch.setattr(fused_engine, "_compiled", threading.Event())
    monkeypatch.setattr(fused_engine, "first_call", lambda: add_one(41))
    for _ in range(2):
        PrototypeClassifier(2, epochs=1).fit([[0.0], [1.0]], ["a", "b"])
    output = capsys.readouterr()
    assert output.out == "" and re.fullmatch(SAID.format("once for this installation"), output.err)


# Distances and scores in float32; gradients are compared with a plain loop for both engines together


def one_step(monkeypatch, inputs, keys, method="idw", **parameters):
    """Take a step from given keys, which stay: the values are 0."""
    initial = keys, np.zeros((len(keys), 2), np.float32)
    monkeypatch.setattr("idwbench.training.kernel_runs.initial_prototypes", lambda *given: initial)
    split = Split(inputs, np.zeros(len(inputs), np.int64))
    dataset = replace(make_dataset(n_classes=2), train=split, test=split, holdout=None)
    settings = {"prototypes": len(keys), "epochs": 1, "batch_size": len(inputs), **parameters}
    run = KernelRun(prototypes_run(dataset, method, **settings), dataset, dataset.moments)
    run.train_epochs(0, 1)
    return run


@pytest.mark.parametrize("share", [0.01, 0.5], ids=["few near pairs", "more than there is room for"])
def test_squared_distances_by_products_are_exact_near_keys_too(share, monkeypatch):
    monkeypatch.setattr("idwbench.training.kernel_runs.PRODUCT_SIZES", (1, 1, 1))
    generator = np.random.default_rng(0)
    inputs, keys = generator.normal(size=(64, 300)), generator.normal(size=(40, 300))
    near = generator.random((64, 40)) < share
    for b, p in zip(*np.nonzero(near), strict=True):
        inputs[b] = keys[p] + generator.normal(size=300) * 10.0 ** generator.integers(-6, 0)
    inputs[0] = keys[0]
    inputs, keys = inputs.astype(np.float32), keys.astype(np.float32)
    scratch = one_step(monkeypatch, inputs, keys).scratch
    truth = ((inputs[:, None].astype(np.float64) - keys) ** 2).sum(-1)
    assert scratch.by_products and truth[0, 0] == scratch.similarities[0, 0] == 0
    # 300 terms, and the norms are at most 8 times what is computed by products.
    np.testing.assert_allclose(scratch.similarities, truth, rtol=8 * np.sqrt(300) * 2**-24)


DISTANCES = np.concatenate([[0, 1e-13], np.geomspace(1e-7, 1e4, 60)]).astype(np.float32)
# Scores of inverse distances with a small ε reach the bound of the exponential.
SCORES = [setting for setting in SCORE_SETTINGS if setting[0] not in ("cosine", "additive", "fc_relu")]
SCORES += [("inv_dist", {"epsilon": 1e-6}), ("inv_dist", {"epsilon": 1e-12})]


@pytest.mark.parametrize(("method", "given"), SCORES)
def test_scores_equal_those_of_tensors_at_all_distances(method, given, monkeypatch):
    run = one_step(monkeypatch, np.zeros((1, 1), np.float32), DISTANCES[:, None], method, **given)
    tensors = torch.zeros(1, 1, dtype=torch.float64), torch.tensor(DISTANCES[:, None]).double()
    truth = METHODS[method].score(*tensors, **run.config.model.parameters)[0].numpy()
    scores = run.scratch.scores[0].astype(np.float64)
    np.testing.assert_array_equal(np.isposinf(scores), np.isposinf(truth))
    finite = np.isfinite(truth)
    # exp(x) and log(x) lose as many units in the last place as x, or log x, is large; what is tiny may become 0.
    size = np.maximum(np.abs(truth[finite]), 1.0 if method == "idw" else 1e-30)
    units = np.abs(scores[finite] - truth[finite]) / (np.finfo(np.float32).eps * size)
    assert (units <= 4 * (1 + np.abs(np.log(size)))).all()
    if method == "inv_dist" and "power" not in given:  # a plain reciprocal
        plain = truth <= 1e9
        np.testing.assert_allclose(scores[plain], truth[plain], rtol=3 * np.finfo(np.float32).eps)


@numba.njit
def exps_and_logs(numbers, exps, logs):
    for i in range(len(numbers)):
        exps[i] = exp32(numbers[i])
        logs[i] = log32(exps[i])


@pytest.mark.slow
def test_exp_and_log_are_within_two_units_in_the_last_place_and_keep_nan_and_infinity():
    numbers = np.append(np.linspace(-87, 88, 20_001), [0, np.inf, -np.inf, np.nan]).astype(np.float32)
    exps, logs = np.empty((2, len(numbers)), np.float32)
    exps_and_logs(numbers, exps, logs)
    np.testing.assert_allclose(exps[:-3], np.exp(numbers[:-3].astype(np.float64)), rtol=2.5e-7)
    np.testing.assert_allclose(logs[:-3], np.log(exps[:-3].astype(np.float64)), rtol=2.5e-7, atol=1e-7)
    np.testing.assert_array_equal([*exps[-3:], logs[-3], logs[-1]], [np.inf, 0, np.nan, np.inf, np.nan])
