"""What attention layers cost beside PyTorch's module: forward and backward pass, by length and score."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.tables import header, row
from benchmarks.timing import side_by_side
from idwbench.attention.layers import MultiheadAttention
from idwbench.data.dataset import Dataset

__all__ = ["layers"]

LENGTHS = (64, 256, 1024, 4096)
SCORES = ("scaled_dot", "cosine", "neg_dist", "gaussian", "inv_dist", "idw", "additive")
EMBED_DIM, HEADS = 64, 4


def layers(mnist: Dataset) -> None:
    """One sequence, 64 features, 4 heads, float32: the cost of PyTorch's module, and ratios to it."""
    modules: dict[str, torch.nn.Module] = {
        "PyTorch": torch.nn.MultiheadAttention(EMBED_DIM, HEADS, batch_first=True),
        **{score: MultiheadAttention(EMBED_DIM, HEADS, score, batch_first=True) for score in SCORES},
    }
    titles = [f"{what} at {length:,}" for length in LENGTHS for what in ("time", "memory")]
    header("score", *titles, numbers=len(titles))
    costs = {name: [cost for length in LENGTHS for cost in _cost(modules, name, length)] for name in modules}
    costs["PyTorch, with weights"] = [cost for length in LENGTHS for cost in _cost(modules, "PyTorch", length, True)]
    for name, cells in costs.items():
        row(f"`{name}`" if name in SCORES else name, *cells)


def _cost(modules: dict[str, torch.nn.Module], name: str, length: int, need_weights: bool = False) -> tuple[str, str]:
    """Return time and memory of a step over those of PyTorch's module; for the module itself ms and MiB."""
    inputs = torch.randn(1, length, EMBED_DIM, requires_grad=True)
    plain = partial(_step, modules["PyTorch"], inputs, False)
    step = partial(_step, modules[name], inputs, need_weights)
    if name == "PyTorch" and not need_weights:
        times = side_by_side(plain, rounds=5, clock=_processor_seconds)
        return f"{times.seconds(0) * 1e3:.3g} ms", f"{_peak(plain) / 2**20:.3g} MiB"
    times = side_by_side(step, plain, rounds=5 if length < 2000 else 3, clock=_processor_seconds)
    return f"{times.ratio(0, 1):.3g}", f"{_peak(step) / _peak(plain):.3g}"


def _processor_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _step(module: torch.nn.Module, inputs: torch.Tensor, need_weights: bool) -> None:
    module(inputs, inputs, inputs, need_weights=need_weights)[0].sum().backward()
    module.zero_grad()
    inputs.grad = None


def _peak(work: Callable[[], object]) -> int:
    """Return the largest sum of bytes that PyTorch had allocated at a time during the work."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    assert profiled.profiler is not None and profiled.profiler.kineto_results is not None
    events = profiled.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return max(accumulate(change for _, change in changes))
