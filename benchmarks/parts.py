"""Each part of the benchmark: a few lines of a Markdown table."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.timing import side_by_side
from benchmarks.workloads import METHODS, blobs, cut, run
from idwbench.data.dataset import Dataset
from idwbench.engine.fused_engine import FusedEngine, KernelRun
from idwbench.engine.threads import available_cores
from idwbench.engine.torch_engine import TorchEngine
from idwbench.initialisation import feature_moments

__all__ = [
    "agreement",
    "full_run",
    "memory",
    "prototypes",
    "shapes",
    "stack",
    "steps",
    "table_1",
    "threads",
    "two_moons",
]

ROOT = Path(__file__).parents[1]


def agreement(mnist: Dataset) -> None:
    """Prove first that both engines do the same: after 100 steps on real images, keys and values agree.

    Differences are ‖a − b‖/‖b‖. Adam divides a gradient by its own size, so that single keys whose gradient is all
    rounding may differ by a learning rate.
    """
    small = cut(mnist, 400)
    fused, eager = FusedEngine(), TorchEngine()
    _row("method", "difference of keys", "of values", "of loss")
    _row("---", "--:", "--:", "--:")
    for method in METHODS:
        config = run(small, method, epochs=1)
        a, b = fused.train([config], small)[0], eager.train([config], small)[0]
        assert a.keys is not None and b.keys is not None and a.values is not None and b.values is not None
        keys = np.linalg.norm(a.keys - b.keys) / np.linalg.norm(b.keys)
        values = np.linalg.norm(a.values - b.values) / np.linalg.norm(b.values)
        loss = abs(a.curve[0].train_loss / b.curve[0].train_loss - 1)
        _row(method, f"{keys:.1e}", f"{values:.1e}", f"{loss:.1e}")
        if max(keys, values, loss) > 1e-4:
            raise SystemExit(f"the engines do not agree on {method}")


def steps(mnist: Dataset) -> None:
    """One step of batch 4, 20 prototypes, 784 features on one core: fused beside the eager step."""
    _row("method", "fused, µs", "eager torch, µs", "ratio", "must")
    _row("---", "--:", "--:", "--:", "---")
    for method in METHODS:
        pair = _steps(cut(mnist, 2000), method, 4, 20, rounds=5)
        must = "≤ 12 µs, ≥ 25 times" if method == "idw" else "≥ 15 times"
        _row(method, f"{pair[0] * 1e6:.1f}", f"{pair[1] * 1e6:.0f}", f"{pair[2]:.1f}", must)


def _steps(dataset: Dataset, method: str, batch: int, n_prototypes: int, rounds: int) -> tuple[float, float, float]:
    """Return seconds a step of both engines and their ratio; an epoch's test of one input is part of it."""
    n_steps = math.ceil(len(dataset.train) / batch)
    config = run(dataset, method, n_prototypes, epochs=1, batch_size=batch)
    kernel_run = KernelRun(config, dataset, feature_moments(dataset.train.inputs))
    stack = TorchEngine().stack([config], dataset)
    pair = side_by_side(lambda: kernel_run.train_epochs(0, 1), lambda: stack.train_epoch(0), rounds)
    return pair.first / n_steps, pair.second / n_steps, pair.ratio


def full_run(mnist: Dataset) -> None:
    """One MNIST run of 50 epochs with test accuracy after each, on one core, and what the tests cost."""
    engine = FusedEngine()
    engine.prepare()
    started = time.perf_counter()
    result = engine.train([run(mnist)], mnist)[0]
    whole = time.perf_counter() - started
    started = time.perf_counter()
    engine.train([run(cut(mnist, len(mnist.train)))], cut(mnist, len(mnist.train)))
    untested = time.perf_counter() - started
    _row("work", "seconds", "must")
    _row("---", "--:", "---")
    _row(f"one run, 50 epochs, test accuracy {result.test_accuracy:.4f}", f"{whole:.1f}", "≤ 12")
    _row("the same without tests", f"{untested:.1f}", "evaluation under 10 %")


def table_1(mnist: Dataset) -> None:
    """`sweeps/mnist.yaml` as a user types it, everything included."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = _typed("sweep", str(ROOT / "sweeps/mnist.yaml"), "--db", f"{folder}/results.db")
        _row("work", "seconds", "must")
        _row("---", "--:", "---")
        _row(f"Table 1, six methods, {available_cores()} cores", f"{seconds:.1f}", "≤ 45")


def two_moons(mnist: Dataset) -> None:
    """A sweep of 1,000 seeds of one cell of Two Moons, database included, as a user types it."""

    def seconds(n_seeds: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            sweep = Path(folder) / "seeds.yaml"
            sweep.write_text(
                f"name: seeds\ndataset: two_moons\nseeds: {n_seeds}\n"
                "grid: {method: idw, prototypes: 16, power: 2, epsilon: 1.0e-3}\n"
            )
            return _typed("sweep", str(sweep), "--db", f"{folder}/results.db")

    one, thousand = (statistics.median(seconds(n) for _ in range(3)) for n in (1, 1000))
    _row("work", "seconds", "runs a second", "must")
    _row("---", "--:", "--:", "---")
    _row("1 seed: the start of the program", f"{one:.2f}", "", "")
    _row("1,000 seeds, the start included", f"{thousand:.2f}", f"{1000 / thousand:.0f}", "")
    _row("1,000 seeds less that start", f"{thousand - one:.2f}", f"{999 / (thousand - one):.0f}", "≥ 400")


def threads(mnist: Dataset) -> None:
    """Ten MNIST runs by one thread and by two."""
    from concurrent.futures import ThreadPoolExecutor

    engine = FusedEngine()
    configs = [run(mnist, seed=seed, epochs=4) for seed in range(10)]

    def train(n_threads: int) -> None:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda config: engine.train([config], mnist), configs))

    pair = side_by_side(lambda: train(2), lambda: train(1), rounds=3)
    _row("work", "one thread, s", "two threads, s", "ratio", "must")
    _row("---", "--:", "--:", "--:", "---")
    _row("ten runs of 4 epochs", f"{pair.second:.2f}", f"{pair.first:.2f}", f"{pair.ratio:.2f}", "≥ 1.8")


def prototypes(mnist: Dataset) -> None:
    """Cost against prototypes at batch 64."""
    small = cut(mnist, 6400)
    moments = feature_moments(small.train.inputs)
    _row("prototypes", "step, µs", "a prototype, µs")
    _row("--:", "--:", "--:")
    for n in (20, 200, 2000):
        kernel_run = KernelRun(run(small, "idw", n, batch_size=64, epochs=1), small, moments)
        pair = side_by_side(lambda: kernel_run.train_epochs(0, 1), lambda: None, 3)  # noqa: B023
        _row(str(n), f"{pair.first / 100 * 1e6:.0f}", f"{pair.first / 100 / n * 1e6:.2f}")


def memory(mnist: Dataset) -> None:
    """Peak memory of a sweep of 10 and of 100 MNIST runs."""
    _row("runs in one sweep", "peak memory, MB")
    _row("--:", "--:")
    for n in (10, 100):
        with tempfile.TemporaryDirectory() as folder:
            sweep = Path(folder) / "seeds.yaml"
            sweep.write_text(
                f"name: seeds\ndataset: mnist\nprotocol: {{epochs: 1, batch_size: 256}}\nseeds: {n}\n"
                "grid: {method: idw, prototypes: 20, power: 2, epsilon: 1.0e-3}\n"
            )
            program = (
                "import json, resource, subprocess, sys\n"
                f"subprocess.run([sys.executable, '-m', 'idwbench', 'sweep', {str(sweep)!r}, '--db', '{folder}/r.db'],"
                " check=True, capture_output=True)\n"
                "print(json.dumps(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n"
            )
            peak = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
            _row(str(n), f"{peak / 1024:.0f}")


def stack(mnist: Dataset) -> None:
    """64 seeds of one Two Moons cell in one stack of the torch engine, beside one seed."""
    from idwbench.data.loading import load_dataset

    moons = load_dataset(run(blobs(1, 1)).dataset)
    engine = TorchEngine()
    configs = [run(moons, prototypes=16, seed=s, epochs=25, batch_size=10, learning_rate=0.01) for s in range(64)]
    pair = side_by_side(lambda: engine.train(configs[:1], moons), lambda: engine.train(configs, moons), 5)
    _row("work", "one seed, s", "64 seeds, s", "ratio", "must")
    _row("---", "--:", "--:", "--:", "---")
    _row("Two Moons, 16 prototypes", f"{pair.first:.3f}", f"{pair.second:.3f}", f"{pair.ratio:.2f}", "< 3")


def shapes(mnist: Dataset) -> None:
    """Fused beside eager over batch, prototypes and features: the ratio must never be below 1.

    idw, whose eager step takes differences, and fc_relu, whose eager step is hardly more than matrix products: the
    hardest rival.
    """
    _row("method", "features", "prototypes", *(f"batch {batch}" for batch in BATCHES))
    _row("---", "--:", "--:", *("--:" for _ in BATCHES))
    for method in ("idw", "fc_relu"):
        for n_features in (2, 64, 784):
            for n_prototypes in (2, 20, 200, 2000):
                ratios = [_ratio(method, batch, n_prototypes, n_features) for batch in BATCHES]
                _row(method, str(n_features), str(n_prototypes), *ratios)


def _ratio(method: str, batch: int, n_prototypes: int, n_features: int) -> str:
    numbers = batch * n_prototypes * n_features
    if method == "idw" and numbers > EAGER_NUMBERS:
        return "eager: no memory"
    n_steps = int(np.clip(3e8 / numbers, 2, 100))
    dataset = cut(blobs(batch * n_steps, n_features), batch * n_steps)
    return f"{_steps(dataset, method, batch, n_prototypes, rounds=3)[2]:.3g}"


# An eager step by differences keeps some six arrays of this many numbers: above, it wants more than 8 GB.
EAGER_NUMBERS = 3.5e8
BATCHES = (1, 4, 16, 64, 256, 1024)


def _typed(*words: str) -> float:
    """Return how many seconds a command takes, from typing it to its end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "idwbench", *words], check=True, capture_output=True)
    return time.perf_counter() - started


def _row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)
