"""`idwbench sweep --dry-run`: the runs of a sweep, and which of them the database holds."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from idwbench.cli.echo import echo, echo_json
from idwbench.cli.setting_progress import RunLabels
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from idwbench.results.store import Results
    from idwbench.runs.datasets import DatasetConfig
    from idwbench.sweep.execution import Retry
    from idwbench.sweep.spec import SweepSpec

__all__ = ["dataset_labels", "print_plan"]

_MISSING, _UNKNOWN, _RETRY = "missing", "unknown", ", retry"
_STATES = ("complete", "diverged", "failed", "running", "stale", "planned", _MISSING, _UNKNOWN)
_AT_ONCE = 10_000


def print_plan(spec: SweepSpec, db: str, as_json: bool, retry: Retry | None = None) -> None:
    """Print the runs with their states, and on stderr the number of runs in each; a database is never created.

    A state that `retry` trains again is followed by ``, retry``. Of a search the space is printed: its runs depend on
    results.
    """
    if spec.sampler is not None:
        _print_space(spec, as_json)
        return
    if as_json:
        _print_json(spec, db, retry)
        return
    counts: Counter[str] = Counter()
    states = _StoredStates(db, retry)
    width = max(map(len, states.words))
    for batch in _batches(_described_runs(spec), _AT_ONCE):
        stored = states([key for key, _ in batch])
        found = [stored.get(key, states.otherwise) for key, _ in batch]
        first = counts.total() + 1
        lines = zip(range(first, first + len(batch)), found, batch, strict=True)
        echo("\n".join(f"{number:>5}  {key[:12]}  {state:<{width}}  {words}" for number, state, (key, words) in lines))
        counts.update(found)
    names = ", ".join(dict.fromkeys(dataset.name for dataset, _ in spec.datasets))
    in_states = ", ".join(f"{counts[state]:,} {state}" for state in states.words if counts[state])
    reason = f"; {states.problem}" if states.problem else ""
    echo(f"{spec.name}: {count_label(counts.total(), 'run')} on {names}: {in_states}{reason}", err=True)


def _print_json(spec: SweepSpec, db: str, retry: Retry | None) -> None:
    from idwbench.sweep.spec import plan

    configs = plan(spec)
    keys = [config.run_key for config in configs]
    states = _StoredStates(db, retry)
    stored = states(keys)
    described = [
        {"run_key": key, "state": stored.get(key, states.otherwise), **config.model_dump(mode="json")}
        for key, config in zip(keys, configs, strict=True)
    ]
    echo_json(described, indent=1)


def _print_space(spec: SweepSpec, as_json: bool) -> None:
    from dataclasses import asdict, is_dataclass

    assert spec.sampler is not None
    space = [
        {name: asdict(axis) if is_dataclass(axis) else list(axis) for name, axis in block.items()}
        for block in spec.space
    ]
    sampler = spec.sampler.model_dump(mode="json")
    if as_json:
        echo_json({"sampler": sampler, "space": space, "seeds": list(spec.seeds)}, indent=1)
        return
    for block in space:
        for name, axis in block.items():
            shown = " to ".join(f"{axis[end]:g}" for end in ("low", "high")) if isinstance(axis, dict) else axis
            echo(f"{name}: {shown if isinstance(shown, str) else ', '.join(map(str, shown))}")
    trials, seeds = count_label(spec.sampler.trials, "trial"), count_label(len(spec.seeds), "seed")
    echo(f"{spec.name}: {trials} of {seeds} by {sampler['optuna']}; each depends on the results before", err=True)


def _described_runs(spec: SweepSpec) -> Iterator[tuple[str, str]]:
    """Yield key and description of each run; the runs of one setting share its label."""
    from idwbench.sweep.spec import plan

    label = RunLabels((), dataset_labels(spec))
    label.varying = _varying_protocol(spec)
    first, words = None, ""
    for config in plan(spec):
        parts = (config.dataset, config.model, config.protocol)
        if first is None or any(one is not other for one, other in zip(parts, first, strict=True)):
            first, words = parts, label(config)
        yield config.run_key, f"{words} · seed {config.seed}"


def _varying_protocol(spec: SweepSpec) -> list[str]:
    """Return the settings of the protocol that differ between runs of a sweep."""
    from idwbench.runs.protocol import Protocol

    return [
        name
        for name in Protocol.model_fields
        if len({v for _, p in spec.datasets for block in spec.grid for v in block.get(name, (getattr(p, name),))}) > 1
    ]


def _batches(runs: Iterator[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    while batch := [*islice(runs, size)]:
        yield batch


class _StoredStates:
    """Returns the states of the runs that the database has.

    Attributes:
        otherwise: The state of other runs: ``missing``, or ``unknown`` if the tables are read after an upgrade only.
        problem: Why states are unknown, or an empty string.
    """

    def __init__(self, db: str, retry: Retry | None) -> None:
        from idwbench.errors import NoResultsError, OldResultsError
        from idwbench.results.store import Results
        from idwbench.sweep.execution import RETRIED

        self.results: Results | None = None
        self.otherwise, self.problem = _MISSING, ""
        self.retried = RETRIED[retry]
        self.words = [f"{state}{again}" for state in _STATES for again in ("", _RETRY)[: 1 + (state in self.retried)]]
        try:
            self.results = Results(db, read_only=True)
        except NoResultsError:
            pass
        except OldResultsError as error:
            self.otherwise, self.problem = _UNKNOWN, str(error)

    def __call__(self, run_keys: Sequence[str]) -> Mapping[str, str]:
        stored = {} if self.results is None else self.results.run_states(run_keys)
        return {key: f"{state}{_RETRY if state in self.retried else ''}" for key, state in stored.items()}


def dataset_labels(spec: SweepSpec) -> dict[DatasetConfig, str]:
    """Return for each data set its name and the settings that vary; empty if there is one data set."""
    from idwbench.report.settings import dataset_words
    from idwbench.runs.datasets import dataset_label

    datasets = [dataset for dataset, _ in spec.datasets]
    if len(datasets) == 1:
        return {}
    words = dataset_words([dataset_label(dataset) for dataset in datasets], datasets)
    return {dataset: " · ".join(found) for dataset, found in zip(datasets, words, strict=True)}
