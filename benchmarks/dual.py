"""What recordings cost, and the dual form read from them: a real training on MNIST. Seconds are processor time."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.tables import header, row
from benchmarks.timing import side_by_side
from idwbench.data.dataset import Dataset
from idwbench.dual.memory import LayerMemory, release_pages
from idwbench.dual.recorder import Recorder
from idwbench.dual.recording import Recording, RecordingFacts
from idwbench.machine import readable_bytes
from idwbench.runs.protocol import Protocol
from idwbench.training.module_training import ModuleTraining, shuffled_batches
from idwbench.training.threads import available_cores, limited_threads

__all__ = ["dual"]

LAYERS = ("layer_0", "layer_1", "layer_2")
SIZES = (784, 800, 800, 10)
IMAGES, STEPS, BATCH = 50_000, 3_000, 128
CHUNK = 5_242  # slots of 800 numbers


def dual(mnist: Dataset) -> None:
    """Recording, identity, totals, top slots and peak memory of the multilayer perceptron 784-800-800-10."""
    with limited_threads(available_cores()), tempfile.TemporaryDirectory() as folder:
        _slowdown(mnist, Path(folder))
        for dtype in ("float32", "float16"):
            target = Path(folder) / dtype
            network = _train(mnist, Recorder, target, dtype, steps=STEPS)
            recording = Recording.open(target)
            print(f"\n{dtype}: {recording.steps:,} steps, {recording.facts.slots:,} slots, ", end="")
            print(f"{readable_bytes(sum(file.stat().st_size for file in target.iterdir()))}\n")
            _identity(network, recording, mnist)
            _totals(recording, mnist)
            _top(recording, mnist)
            _peak(target)


def _network() -> nn.Sequential:
    torch.manual_seed(0)
    parts = [nn.Linear(one, other) for one, other in pairwise(SIZES)]
    return nn.Sequential(parts[0], nn.ReLU(), parts[1], nn.ReLU(), parts[2])


def _layers(network: nn.Sequential) -> dict[str, nn.Linear]:
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    return dict(zip(LAYERS, linear, strict=True))


def _inputs(mnist: Dataset, name: str, n: int) -> NDArray[np.float32]:
    """Return images with pixels between 0 and 1."""
    images = mnist.splits[name].inputs[:n]
    return (images - mnist.train.inputs.min()) / (mnist.train.inputs.max() - mnist.train.inputs.min())


def _train(
    mnist: Dataset, recorder: Callable[..., Recorder] | None, folder: Path, dtype: str = "float32", steps: int = 391
) -> nn.Sequential:
    """Train by the published protocol, and record if there is a recorder."""
    network, rows = _network(), min(IMAGES, BATCH * steps)
    protocol = Protocol(
        epochs=-(-steps * BATCH // IMAGES),
        batch_size=BATCH,
        learning_rate=0.003,
        optimizer="sgd",
        momentum=0.9,
        gradient_clip=1.0,
        schedule="constant",
    )
    inputs, labels = (torch.from_numpy(a) for a in (_inputs(mnist, "train", rows), mnist.train.labels[:rows]))

    def losses(chosen: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(chosen)
        outputs = network(inputs.index_select(0, where))
        return functional.cross_entropy(outputs, labels.index_select(0, where), reduction="none")

    facts = RecordingFacts("benchmark", mnist.sha256, "sgd", 0.9)
    epochs, n_batches = protocol.epochs, -(-rows // BATCH)
    if recorder is None:
        made = None
    else:
        sizes = {"steps": epochs * n_batches, "slots": epochs * rows}
        made = recorder(_layers(network), folder, facts, dtype=dtype, **sizes)
    batches, generator = shuffled_batches(rows, BATCH), np.random.default_rng(0)
    ModuleTraining(network, protocol, losses, batches, generator, recorder=made).train()
    if made is not None:
        made.finish()
    return network


def _processor_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _slowdown(mnist: Dataset, folder: Path, steps: int = 391, rounds: int = 3) -> None:
    """Whole epochs with and without recording, in turn."""
    header(f"an epoch of {steps} steps", "ratio", "seconds", "must", numbers=2)
    work = [
        lambda: _train(mnist, None, folder / "none", steps=steps),
        lambda: _train(mnist, Recorder, folder / "float32", steps=steps),
        lambda: _train(mnist, Recorder, folder / "float16", "float16", steps=steps),
    ]
    times = side_by_side(*work, rounds=rounds, clock=_processor_seconds)
    row("without recording", "1", f"{times.seconds(0):.1f}", "")
    row("recorded in float32", f"{times.ratio(1, 0):.2f}", f"{times.seconds(1):.1f}", "< 1.5")
    row("recorded in float16", f"{times.ratio(2, 0):.2f}", f"{times.seconds(2):.1f}", "< 1.5")


@torch.no_grad()
def _queries(network: nn.Sequential, mnist: Dataset, n: int) -> dict[str, NDArray[np.float32]]:
    """Return the inputs of each layer for test images."""
    found, outputs = {}, torch.from_numpy(_inputs(mnist, "test", n))
    names = iter(LAYERS)
    for layer in network:
        if isinstance(layer, nn.Linear):
            found[next(names)] = outputs.numpy()
        outputs = layer(outputs)
    return found


@torch.no_grad()
def _identity(network: nn.Sequential, recording: Recording, mnist: Dataset, n: int = 200) -> None:
    """The largest difference of a layer and its dual form, over the largest answer."""
    header("layer", "slots", "primal − dual", "must", numbers=2)
    must = "< 1e-4" if recording.facts.dtype == "float32" else ""
    queries = _queries(network, mnist, n)
    for name, layer in _layers(network).items():
        expected = layer.double()(torch.from_numpy(queries[name]).double()).numpy()
        layer.float()
        found = recording.layers[name].answers(queries[name])
        difference = np.abs(found - expected).max() / np.abs(expected).max()
        row(name, f"{recording.layers[name].slots:,}", f"{difference:.1e}", must)
    print()


def _totals(recording: Recording, mnist: Dataset) -> None:
    """Total attention of 10,000 images to ten classes."""
    memory, queries = recording.layers["layer_1"], np.random.default_rng(0).random((10_000, 800), np.float32)
    groups = mnist.train.labels[:IMAGES][recording.rows]
    seconds = [_processor_seconds(lambda: memory.totals(queries, groups, 10)) for _ in range(3)]
    header("totals of 10,000 queries", "ms", numbers=1)
    row("one pass over the keys", f"{np.median(seconds) * 1e3:.0f}")
    print()


def _top(recording: Recording, mnist: Dataset, rounds: int = 3) -> None:
    """Top slots of 1,000 queries beside the bare products of the same chunks, all from the page cache."""
    memory, queries = recording.layers["layer_1"], np.random.default_rng(0).random((1_000, 800), np.float32)
    work = [lambda: _products(memory, queries), lambda: memory.top(queries, 10), lambda: memory.top(queries, 500)]
    times = side_by_side(*work, rounds=rounds, clock=_processor_seconds)
    header("1,000 queries", "products / top", "seconds", "must", numbers=2)
    row("bare products", "", f"{times.seconds(0):.1f}", "")
    for place, k in ((1, 10), (2, 500)):
        row(f"top {k}", f"{1 / times.ratio(place, 0):.0%}", f"{times.seconds(place):.1f}", "≥ 70 %")
    print()


def _products(memory: LayerMemory, queries: NDArray[Any]) -> None:
    inputs, keys = torch.from_numpy(queries), memory.stored_keys
    for start in range(0, memory.slots, CHUNK):
        inputs @ torch.from_numpy(keys[start : start + CHUNK]).float().T
    release_pages(keys)


def _peak(folder: Path) -> None:
    """Peak memory of a process that uses a recording in every way."""
    words = [sys.executable, "-m", "benchmarks.dual", str(folder)]
    peak = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    header("peak memory of a process", "MB", "must", numbers=1)
    row("totals, top 500 of 1,000 queries, answers, a part removed", peak.strip(), "< 2,000")


def _use(folder: Path) -> None:
    """Use every layer of a recording, and print the peak memory of the process in MB."""
    torch.set_num_threads(available_cores())
    recording = Recording.open(folder)
    generator = np.random.default_rng(0)
    for memory in recording.layers.values():
        queries = generator.random((1_000, memory.features), np.float32)
        memory.totals(queries, recording.rows % 10, 10)
        memory.top(queries, 500)
        memory.answers(queries[:100])
        memory.without(recording.rows % 2 == 0)
    print(f"{_peak_kilobytes() / 1024:,.0f}")


def _peak_kilobytes() -> int:
    """Return the peak memory of this process; `getrusage` on Linux counts that of the process that started it too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])


if __name__ == "__main__":
    _use(Path(sys.argv[1]))
