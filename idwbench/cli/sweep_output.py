"""What `idwbench sweep` prints of a plan, and of the runs that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from idwbench.cli.output import echo, echo_json, print_line
from idwbench.cli.setting_progress import RunLabels
from idwbench.errors import last_line, printable
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.runs.config import RunConfig
    from idwbench.runs.datasets import DatasetConfig
    from idwbench.sweep.spec import SweepSpec

__all__ = ["dataset_labels", "failure_lines", "print_plan"]

_MISSING, _UNKNOWN, _RETRY = "missing", "unknown", ", retry"
_STATES = ("complete", "diverged", "failed", "running", "stale", "planned", _MISSING, _UNKNOWN)
_MOST_FAILURES = 20
_REASON_WIDTH = 120


def print_plan(spec: SweepSpec, db: str, retried: Collection[str], as_json: bool) -> None:
    """Print the runs with their states, and on stderr the number of runs in each; a database is never created.

    A state that is `retried` is followed by ``, retry``. Of a search the space is printed: its runs depend on results.
    """
    if spec.sampler is not None:
        _print_space(spec, as_json)
        return
    from idwbench.sweep.spec import plan

    configs = plan(spec)
    keys = [config.run_key for config in configs]
    stored, otherwise, problem = _stored_states(db, keys)
    words = {state: f"{state}{_RETRY if state in retried else ''}" for state in _STATES}
    states = [words[stored.get(key, otherwise)] for key in keys]
    if as_json:
        heads = ({"run_key": key, "state": state} for key, state in zip(keys, states, strict=True))
        echo_json([head | c.model_dump(mode="json") for head, c in zip(heads, configs, strict=True)], indent=1)
        return
    width = max(map(len, words.values()))
    label = RunLabels(configs, dataset_labels(spec))
    for number, (key, state, config) in enumerate(zip(keys, states, configs, strict=True), 1):
        start = f"{number:>5}  {key[:12]}  {state:<{width}}  "
        print_line(f"{start}{label(config)} · seed {config.seed}", hanging=len(start))
    names = ", ".join(dict.fromkeys(dataset.name for dataset, _ in spec.datasets))
    counts = Counter(states)
    in_states = ", ".join(f"{counts[state]:,} {state}" for state in words.values() if counts[state])
    reason = f"; {problem}" if problem else ""
    print_line(f"{spec.name}: {count_label(len(keys), 'run')} on {names}: {in_states}{reason}", err=True)


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
    for name, axis in (axis for block in space for axis in block.items()):
        shown = " to ".join(f"{axis[end]:g}" for end in ("low", "high")) if isinstance(axis, dict) else axis
        print_line(f"{name}: {shown if isinstance(shown, str) else ', '.join(map(str, shown))}")
    trials, seeds = count_label(spec.sampler.trials, "trial"), count_label(len(spec.seeds), "seed")
    echo(f"{spec.name}: {trials} of {seeds} by {sampler['optuna']}; each depends on the results before", err=True)


def _stored_states(db: str, run_keys: Sequence[str]) -> tuple[Mapping[str, str], str, str]:
    """Return the states of the runs that the database has, the state of others, and why it is unknown."""
    from idwbench.errors import NoResultsError, OldResultsError
    from idwbench.results.store import Results

    try:
        return Results(db, read_only=True).run_states(run_keys), _MISSING, ""
    except NoResultsError:
        return {}, _MISSING, ""
    except OldResultsError as error:  # the tables are read after an upgrade only
        return {}, _UNKNOWN, str(error)


def dataset_labels(spec: SweepSpec) -> dict[DatasetConfig, str]:
    """Return for each data set its name and the settings that vary; empty if there is one data set."""
    from idwbench.report.settings import dataset_words
    from idwbench.runs.datasets import dataset_label

    datasets = [dataset for dataset, _ in spec.datasets]
    if len(datasets) == 1:
        return {}
    words = dataset_words([dataset_label(dataset) for dataset in datasets], datasets)
    return {dataset: " · ".join(found) for dataset, found in zip(datasets, words, strict=True)}


def failure_lines(runs: Sequence[StoredRun], label: Callable[[RunConfig], str]) -> Iterator[str]:
    """Yield the lines of a table: number of runs, key of the first, settings by `label`, and the reason.

    Runs of one setting with the same reason share a row. If there are too many rows, runs with the same reason do.
    """
    groups = _grouped(runs, lambda run: (label(run.config), _reason(run)))
    if len(groups) > _MOST_FAILURES:
        groups = _grouped(runs, _reason)
    yield f"{count_label(len(runs), 'run')} failed:"
    counts = [count_label(len(group), "run") if len(group) > 1 else f"seed {group[0].config.seed}" for group in groups]
    width = max(map(len, counts), default=0)
    for count, group in [*zip(counts, groups, strict=True)][:_MOST_FAILURES]:
        labels = list(dict.fromkeys(label(run.config) for run in group))
        more = f" and {count_label(len(labels) - 1, 'other setting')}" if len(labels) > 1 else ""
        yield f"  {count:>{width}}  {group[0].run_key[:12]}  {labels[0]}{more}: {_reason(group[0])}"
    if rest := sum(map(len, groups[_MOST_FAILURES:])):
        yield f"  … and {rest:,} more; idwbench runs list --state failed"


def _grouped(runs: Sequence[StoredRun], kind: Callable[[StoredRun], Hashable]) -> list[list[StoredRun]]:
    """Return the runs of each kind; the largest group is first."""
    groups: dict[Hashable, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(kind(run), []).append(run)
    return sorted(groups.values(), key=len, reverse=True)


def _reason(run: StoredRun) -> str:
    """Return the last line of the stored error, without characters that control a terminal."""
    text = printable(last_line(run.error), kept="") or "no reason"
    return text if len(text) <= _REASON_WIDTH else f"{text[: _REASON_WIDTH - 1]}…"
