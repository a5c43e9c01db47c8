"""Training of a stack with the metrics of prototype quality, and the durations of both."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

from idwbench.data.dataset import Dataset
from idwbench.errors import TrainingError
from idwbench.machine import allocation_problem
from idwbench.models.neighbours import PrototypeQuality, StackSearch
from idwbench.runs.config import RunConfig
from idwbench.runs.results import RunResult
from idwbench.training.engine import Context, Engine

__all__ = ["train_stack"]

# With more features matrix products are faster than the compiled search.
_MOST_COMPILED_FEATURES = 8


def train_stack(
    engine: Engine, stack: Sequence[RunConfig], dataset: Dataset, quality: PrototypeQuality, context: Context
) -> list[RunResult]:
    """Return the results of a stack with the metrics of quality and with durations.

    Raises:
        TrainingError: memory cannot be allocated.

    Each run has the same share of the metrics and of the set-up, which is all time of the engine that is no training.
    """
    started = perf_counter()
    try:
        trained = engine.train(stack, dataset, context)
    except (MemoryError, RuntimeError, ValueError) as error:
        if (problem := allocation_problem(error)) is None:
            raise
        raise TrainingError(f"{stack[0].model.label}: {problem}") from error
    ended = perf_counter()
    qualities = quality.stack_metrics(trained, _search(trained[0], dataset))
    set_up = max(0.0, ended - started - sum(result.seconds for result in trained)) / len(stack)
    metrics = (perf_counter() - ended) / len(stack)
    return [
        replace(
            result,
            metrics={**result.metrics, **quality_metrics},
            durations={"set_up": set_up, "training": result.seconds, "metrics": metrics},
        )
        for result, quality_metrics in zip(trained, qualities, strict=True)
    ]


def _search(result: RunResult, dataset: Dataset) -> StackSearch | None:
    """Return the compiled search if the run was trained by kernels on few features."""
    if result.engine != "fused" or result.instruction_set == "python" or dataset.n_features > _MOST_COMPILED_FEATURES:
        return None
    from idwbench.training.kernels.neighbours import nearest_in_stack

    return nearest_in_stack
