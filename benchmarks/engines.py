"""What training costs: both engines beside the plain PyTorch loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from benchmarks.plain import PlainLoop
from benchmarks.tables import header, row
from benchmarks.timing import Times, side_by_side, wall_seconds
from benchmarks.workloads import METHODS, blobs, cut, run
from idwbench.data.dataset import Dataset, FeatureMoments, feature_moments
from idwbench.data.loading import load_dataset
from idwbench.training import fused_engine
from idwbench.training.engine import Context
from idwbench.training.kernel_runs import KernelRun
from idwbench.training.threads import limited_threads
from idwbench.training.torch_engine import ENGINES, TorchStack, resolve_device

__all__ = ["agreement", "epochs", "full_run", "prototypes", "shapes", "stack", "steps", "threads"]


def agreement(mnist: Dataset) -> None:
    """Prove first that both engines do the same: after 100 steps on real images, keys and values agree.

    Differences are ‖a − b‖/‖b‖. Runs begin at training inputs: from values of zero the first key gradients would be
    rounding noise, which Adam scales up to its step size.
    """
    small = cut(mnist, 400)
    fused, eager = fused_engine.ENGINES["fused"], ENGINES["torch"]
    header("method", "difference of keys", "of values", "of loss", numbers=3)
    for method in METHODS:
        config = run(small, method, epochs=1, initialisation="samples")
        a, b = fused.train([config], small, Context())[0], eager.train([config], small, Context())[0]
        found = [np.linalg.norm(a.arrays[x] - b.arrays[x]) / np.linalg.norm(b.arrays[x]) for x in ("keys", "values")]
        loss = abs(a.curve[0].values["train", "loss"] / b.curve[0].values["train", "loss"] - 1)
        row(method, *(f"{difference:.1e}" for difference in (*found, loss)))
        if max(*found, loss) > 1e-3:
            raise SystemExit(f"the engines do not agree on {method}")


DISTANCES = ("idw", "neg_dist", "gaussian", "inv_dist")
MUST_DISTANCES, MUST_PRODUCTS = 40, 30


def steps(mnist: Dataset) -> None:
    """One step of batch 4, 20 prototypes, 784 features on one core, over the first 500 steps."""
    header("method", "plain / fused", "torch / plain", "fused, µs", "plain, µs", "torch, µs", "must", numbers=5)
    small = cut(mnist, 2000)
    for method in METHODS:
        times = _steps(small, method, 4, 20, rounds=7)
        ratios = f"{times.ratio(1, 0):.1f}", f"{times.ratio(2, 1):.2f}"
        must = f"≥ {MUST_DISTANCES if method in DISTANCES else MUST_PRODUCTS}, ≤ 1.1"
        row(method, *ratios, *(f"{times.seconds(place) / 500 * 1e6:.1f}" for place in range(3)), must)


def _steps(dataset: Dataset, method: str, batch: int, n_prototypes: int, rounds: int, slope_rank: int = 0) -> Times:
    """Return the time of an epoch with a test of one input: fused, plain loop, torch engine with one run.

    It is the first of two: after the last a run computes its outputs for the training data.
    """
    config = run(dataset, method, n_prototypes, epochs=2, batch_size=batch, slope_rank=slope_rank)
    moments = feature_moments(dataset.train.inputs)
    kernel_run, plain = KernelRun(config, dataset, moments), PlainLoop(config, dataset, moments)
    eager = TorchStack([config], dataset, dataset.moments, resolve_device("cpu"))
    return side_by_side(
        lambda: kernel_run.train_epochs(0, 1), plain.train_epoch, lambda: eager.train_epoch(0), rounds=rounds
    )


# Steps of the plain loop beside each real epoch.
PLAIN_STEPS = 1000


def epochs(mnist: Dataset) -> None:
    """A step of a real run by the paper's protocol, epochs 3 to 8, tests included, beside a plain step with its test.

    Adam's means of border pixels decay towards denormal numbers, which many processors handle slowly: what holds for
    the first steps need not hold later.
    """
    header("method", "plain / fused", "real / first", "first, µs", "real, µs", "plain, µs", "must", numbers=5)
    moments = feature_moments(mnist.train.inputs)
    small = cut(mnist, 2000)
    for method in METHODS:
        times = _real_steps(mnist, small, method, moments)
        ratios = f"{times.ratio(2, 0):.1f}", f"{times.ratio(0, 1):.2f}"
        row(method, *ratios, *(f"{times.seconds(place) * 1e6:.1f}" for place in (1, 0, 2)), "≥ 22, ≤ 1.15")


def _real_steps(mnist: Dataset, small: Dataset, method: str, moments: FeatureMoments) -> Times:
    """Return seconds a step, tests included, of epochs 3 to 8 of a fused run; beside each, first and plain steps.

    The first steps are those of `steps`: 500 of a new run, here the mean of ten runs.
    """
    config = run(mnist, method)
    kernel_run, plain = KernelRun(config, mnist, moments), PlainLoop(config, mnist, moments)
    n_steps = math.ceil(len(mnist.train) / config.protocol.batch_size)

    def first_steps() -> float:
        runs = [KernelRun(run(small, method, seed=seed), small, moments) for seed in range(10)]
        return sum(_seconds(lambda: new.train_epochs(0, 1)) for new in runs) / 10 / 500  # noqa: B023

    kernel_run.train_epochs(0, 2)
    plain.train(PLAIN_STEPS)
    first_steps()
    rounds = []
    for epoch in range(2, 8):
        before = first_steps()
        real = _seconds(lambda: kernel_run.train_epochs(epoch, epoch + 1)) / n_steps  # noqa: B023
        first = (before + first_steps()) / 2
        steps = _seconds(lambda: plain.train(PLAIN_STEPS)) / PLAIN_STEPS
        rounds.append([real, first, steps + _seconds(plain.test) / n_steps])
    return Times(rounds)


def full_run(mnist: Dataset) -> None:
    """One MNIST run of 50 epochs with test accuracy after each, on one core, and what the tests cost."""
    engine, untested = fused_engine.ENGINES["fused"], cut(mnist, len(mnist.train))
    fused_engine.prepare()
    engine.train([run(mnist, epochs=1)], mnist, Context())
    whole = _seconds(lambda: engine.train([run(mnist)], mnist, Context()))
    bare = _seconds(lambda: engine.train([run(untested)], untested, Context()))
    plain = PlainLoop(run(mnist), mnist, feature_moments(mnist.train.inputs))
    n_steps = math.ceil(len(mnist.train) / 4)
    of_plain = 50 * (_seconds(lambda: plain.train(2000)) / 2000 * n_steps + _seconds(plain.test))
    header("work", "plain / fused", "seconds", "must", numbers=2)
    row("one run, 50 epochs, tested after each", f"{of_plain / whole:.1f}", f"{whole:.1f}", "≥ 22")
    row("the same without tests", "", f"{bare:.1f}", "evaluation under 10 %")
    row("the plain loop, from 2,000 steps and a test", "", f"{of_plain:.0f}", "")


def threads(mnist: Dataset) -> None:
    """Ten MNIST runs by one thread and by two, and one large run."""
    from concurrent.futures import ThreadPoolExecutor

    engine = fused_engine.ENGINES["fused"]
    configs = [run(mnist, seed=seed, epochs=4) for seed in range(10)]

    def train(n_threads: int) -> None:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda config: engine.train([config], mnist, Context()), configs))

    large = run(mnist, batch_size=256, prototypes=1000, epochs=1)

    def train_large(n_threads: int) -> None:
        with limited_threads(n_threads):
            engine.train([large], mnist, Context())

    def measured(title: str, work: Callable[[int], None], must: str) -> None:
        times = side_by_side(lambda: work(2), lambda: work(1), rounds=3, clock=wall_seconds)
        seconds = f"{times.seconds(1):.2f}", f"{times.seconds(0):.2f}"
        row(title, f"{times.ratio(1, 0):.2f}", *seconds, must)

    header("work", "one / two", "one thread, s", "two threads, s", "must", numbers=3)
    measured("ten runs of 4 epochs", train, "≥ 1.8")
    measured("one run of 1,000 prototypes, batch 256, one epoch", train_large, "")


def prototypes(mnist: Dataset) -> None:
    """Cost against prototypes at batch 64."""
    small = cut(mnist, 1600)
    header("prototypes", "plain / fused", "fused, µs", "a prototype, µs", "plain, µs", numbers=5)
    for n in (20, 200, 2000):
        times = _steps(small, "idw", 64, n, rounds=3)
        fused, plain = (times.seconds(place) / 25 * 1e6 for place in (0, 1))
        row(str(n), f"{times.ratio(1, 0):.1f}", f"{fused:.0f}", f"{fused / n:.2f}", f"{plain:.0f}")


def stack(mnist: Dataset) -> None:
    """64 seeds of one Two Moons cell in one stack of the torch engine, beside one seed and the plain loop."""
    moons = load_dataset(run(blobs(1, 1)).dataset)
    engine = ENGINES["torch"]
    protocol = {"epochs": 25, "batch_size": 10, "learning_rate": 0.01}
    configs = [run(moons, prototypes=16, seed=seed, **protocol) for seed in range(64)]
    moments = feature_moments(moons.train.inputs)

    def plain() -> None:
        loop = PlainLoop(configs[0], moons, moments)
        for _ in range(25):
            loop.train_epoch()

    times = side_by_side(
        plain,
        lambda: engine.train(configs[:1], moons, Context()),
        lambda: engine.train(configs, moons, Context()),
        rounds=5,
    )
    header("work", "ratio", "seconds", "must", numbers=2)
    row("the plain loop, one seed", "", f"{times.seconds(0):.3f}", "")
    row("torch engine, one seed / plain", f"{times.ratio(1, 0):.2f}", f"{times.seconds(1):.3f}", "≤ 1.1")
    row("torch engine, 64 seeds / one seed", f"{times.ratio(2, 1):.2f}", f"{times.seconds(2):.3f}", "< 3")


BATCHES = (4, 64, 1024)


def shapes(mnist: Dataset) -> None:
    """The plain loop over the fused engine, and in brackets the torch engine over the fused one, by shape.

    idw, whose plain step is a matrix product above 25 rows, and fc_relu, whose plain step is hardly more than matrix
    products: the hardest rivals.
    """
    header("method", "features", "prototypes", *(f"batch {batch}" for batch in BATCHES), numbers=len(BATCHES) + 2)
    for method in ("idw", "fc_relu"):
        for n_features in (2, 784):
            for n_prototypes in (20, 200, 2000):
                ratios = [_ratios(method, batch, n_prototypes, n_features) for batch in BATCHES]
                row(method, str(n_features), str(n_prototypes), *ratios)
    for n_prototypes in (10, 100):
        ratios = [_ratios("idw", batch, n_prototypes, 784, slope_rank=8) for batch in BATCHES]
        row("idw, slopes of rank 8", "784", str(n_prototypes), *ratios)


def _ratios(method: str, batch: int, n_prototypes: int, n_features: int, slope_rank: int = 0) -> str:
    n_steps = int(np.clip(3e8 / (batch * n_prototypes * n_features * (1 + slope_rank)), 2, 100))
    dataset = cut(blobs(batch * n_steps, n_features), batch * n_steps)
    times = _steps(dataset, method, batch, n_prototypes, 3, slope_rank)
    return f"{times.ratio(1, 0):.3g} ({times.ratio(2, 0):.3g})"


def _seconds(work: object) -> float:
    started = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - started
