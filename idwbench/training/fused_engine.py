"""The fused engine: whole epochs in one call of a compiled kernel on one core, without the GIL; thread-safe."""

import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numba
import numpy as np
from numba.core.registry import cpu_target

from idwbench.data.dataset import Dataset
from idwbench.models.initialisation import check_prototypes
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult
from idwbench.training.engine import Context, Engine, Fitted, check_stack, run_result
from idwbench.training.kernel_runs import KernelRuns, first_call
from idwbench.training.kernels.jit import with_repaired_cache
from idwbench.training.kernels.scores import KERNEL_SCORES
from idwbench.training.threads import blas_threads

__all__ = ["ENGINES", "has_kernel", "instruction_set", "prepare"]

# Number of differences of inputs and keys in one call of the kernel, some tenths of a second.
CALL_NUMBERS = 2**29
# Overhead of a sample, as a number of differences.
SAMPLE_NUMBERS = 1024
# Number of differences in a bundle of runs, some tenths of a second.
BUNDLE_NUMBERS = 5 * 2**28
MAX_BUNDLE = 250

_compiling = threading.Lock()
_compiled = threading.Event()


def prepare() -> None:
    """Compile kernels, or load them from the cache; a compilation is logged when it begins and when it ends."""
    with _compiling:
        if not _compiled.is_set():
            with_repaired_cache(first_call)
            _compiled.set()


def has_kernel(config: RunConfig) -> bool:
    """Return whether there is a kernel for the run's method, with its own weighting."""
    model = config.network
    return model.method in KERNEL_SCORES and model.plugin_sha256 is None and model.weighting is None


def _max_stack(config: RunConfig, dataset: Dataset) -> int:
    """Return the number of runs that are stored together."""
    sample_numbers = SAMPLE_NUMBERS + config.model.prototypes * dataset.n_features * (1 + config.network.slope_rank)
    run_numbers = config.protocol.epochs * len(dataset.train) * sample_numbers
    return int(np.clip(BUNDLE_NUMBERS // run_numbers, 1, MAX_BUNDLE))


def _train(configs: Sequence[RunConfig], dataset: Dataset, context: Context) -> list[RunResult]:
    """Train runs of built-in methods, one after the other, and return their results in order.

    Raises:
        ValueError: the stack keys differ, or the method has no kernel.
    """
    check_stack(configs)
    if not has_kernel(configs[0]):
        raise ValueError(f"there is no kernel for method '{configs[0].model.method}'")
    prepare()
    started = time.perf_counter()
    runs = KernelRuns(configs, dataset, dataset.moments)
    for first, last in _calls(runs):
        runs.train(first, last)
        finite = int(runs.finite.max())
        for epoch in range(first, min(finite + 1, last)):
            context.on_epoch(epoch + 1)
        if finite < last:  # loss, keys or values of no run are finite
            break
    return _results(runs, configs, dataset, time.perf_counter() - started)


def _calls(runs: KernelRuns) -> list[tuple[int, int]]:
    """Return the epochs of each call of the kernel: the first, and the one after the last."""
    epochs = runs.protocol.epochs
    sample_numbers = SAMPLE_NUMBERS + runs.keys[0, 0].size + runs.slope_inputs[0, 0].size
    numbers = len(runs.configs) * len(runs.dataset.train) * sample_numbers
    # A bundle is trained in one call.
    chunk = max(1, (CALL_NUMBERS if len(runs.configs) == 1 else BUNDLE_NUMBERS) // numbers)
    return [(first, min(first + chunk, epochs)) for first in range(0, epochs, chunk)]


def _results(runs: KernelRuns, configs: Sequence[RunConfig], dataset: Dataset, seconds: float) -> list[RunResult]:
    """Return the results of trained runs; `seconds` is the time of all."""
    keys, values = runs.prototypes()
    n_epochs = runs.protocol.epochs
    metrics, finite = _metrics(runs, dataset), runs.finite.tolist()
    environment = ("cpu", blas_threads() if runs.calls_blas else 1, instruction_set())
    results = []
    for r, (config, curve) in enumerate(zip(configs, runs.curves(), strict=True)):
        diverged_epoch = None if finite[r] == n_epochs else finite[r] + 1
        arrays = {"keys": keys[r], "values": values[r], **runs.slopes(r)}
        n_parameters = sum(array.size for array in arrays.values())
        fitted = Fitted(metrics.get(r, {}), arrays, n_parameters, curve, diverged_epoch)
        results.append(run_result(config, fitted, "fused", seconds / len(configs), environment))
    return results


def _metrics(runs: KernelRuns, dataset: Dataset) -> dict[int, dict[tuple[str, str], float]]:
    """Return the metrics of the runs that are complete, by their place in the stack."""
    complete = np.flatnonzero(runs.finite == runs.protocol.epochs)
    by_run: dict[int, dict[tuple[str, str], float]] = {r: {} for r in complete.tolist()}
    for r, own in by_run.items():
        for split in dataset.splits:
            own |= dataset.metrics(split, runs.outputs[split][r])
    return by_run


@cache
def instruction_set() -> str:
    """Return LLVM's name of the processor that kernels are compiled for; ``python`` without compilation."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return "python"
    return str(cast(Any, cpu_target).target_context.codegen().magic_tuple()[1])


ENGINES = {"fused": Engine("fused", _train, _max_stack, check_prototypes)}
