"""What `idwbench sweep` prints of a plan, and of the runs that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import idwbench
from idwbench.cli.output import echo, echo_json, print_line
from idwbench.cli.progress import run_labels
from idwbench.errors import NoResultsError, OldResultsError, last_line, printable
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.runs.config import RunConfig
    from idwbench.sweep.sampler import SamplerSettings
    from idwbench.sweep.spec import SweepSpec

__all__ = ["failure_lines", "print_plan"]

_STATES = ("complete", "diverged", "failed", "running", "stale", "planned", "missing", "unknown")
_MOST_FAILURES = 20
_REASON_WIDTH = 120


def print_plan(spec: SweepSpec, db: str, retried: Collection[str], as_json: bool) -> None:
    """Print the runs with their states, and on stderr the number of runs in each; a database is never created.

    A state that is `retried` is followed by ``, retry``. Of a search the space is printed: its runs depend on results.
    """
    if spec.sampler is not None:
        _print_space(spec, spec.sampler, as_json)
        return
    from idwbench.sweep.spec import plan

    configs = plan(spec)
    keys = [config.run_key for config in configs]
    stored, otherwise, problem = _stored_states(db, keys)
    words = {state: f"{state}{', retry' if state in retried else ''}" for state in _STATES}
    states = [words[stored.get(key, otherwise)] for key in keys]
    if as_json:
        heads = ({"run_key": key, "state": state} for key, state in zip(keys, states, strict=True))
        echo_json([head | c.model_dump(mode="json") for head, c in zip(heads, configs, strict=True)], indent=1)
        return
    width = max(map(len, words.values()))
    label = run_labels(configs, spec)
    for number, (key, state, config) in enumerate(zip(keys, states, configs, strict=True), 1):
        start = f"{number:>5}  {key[:12]}  {state:<{width}}  "
        print_line(f"{start}{label(config)} · seed {config.seed}", hanging=len(start))
    names = ", ".join(dict.fromkeys(dataset.name for dataset, _ in spec.datasets))
    counts = Counter(states)
    in_states = ", ".join(f"{counts[state]:,} {state}" for state in words.values() if counts[state])
    print_line(f"{spec.name}: {count_label(len(keys), 'run')} on {names}: {in_states}{problem}", err=True)


def _print_space(spec: SweepSpec, sampler: SamplerSettings, as_json: bool) -> None:
    from idwbench.sweep.sampler import Range

    if as_json:
        space = [
            {name: asdict(axis) if isinstance(axis, Range) else list(axis) for name, axis in block.items()}
            for block in spec.space
        ]
        echo_json({"sampler": sampler.model_dump(mode="json"), "space": space, "seeds": list(spec.seeds)}, indent=1)
        return
    for name, axis in (axis for block in spec.space for axis in block.items()):
        values = f"{axis.low:g} to {axis.high:g}" if isinstance(axis, Range) else ", ".join(map(str, axis))
        print_line(f"{name}: {values}")
    trials, seeds = count_label(sampler.trials, "trial"), count_label(len(spec.seeds), "seed")
    echo(f"{spec.name}: {trials} of {seeds} by {sampler.optuna}; each depends on the results before", err=True)


def _stored_states(db: str, run_keys: Sequence[str]) -> tuple[Mapping[str, str], str, str]:
    """Return the states of the runs that the database has, the state of others, and why it is unknown."""
    try:
        return idwbench.Results(db, read_only=True).run_states(run_keys), "missing", ""
    except NoResultsError:
        return {}, "missing", ""
    except OldResultsError as error:  # the tables are read after an upgrade only
        return {}, "unknown", f"; {error}"


def failure_lines(runs: Sequence[StoredRun], label: Callable[[RunConfig], str]) -> Iterator[str]:
    """Yield the lines of a table: number of runs, key of the first, settings by `label`, and the reason.

    Runs of one setting with the same reason share a row. If there are too many rows, runs with the same reason do.
    """
    groups: dict[tuple[str, ...], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault((_reason(run), label(run.config)), []).append(run)
    if len(groups) > _MOST_FAILURES:
        groups = {}
        for run in runs:
            groups.setdefault((_reason(run),), []).append(run)
    yield f"{count_label(len(runs), 'run')} failed:"
    rows = sorted(groups.items(), key=lambda group: len(group[1]), reverse=True)  # the largest is first
    counts = [count_label(len(group), "run") if len(group) > 1 else f"seed {group[0].config.seed}" for _, group in rows]
    width = max(map(len, counts), default=0)
    for count, ((reason, *_), group) in [*zip(counts, rows, strict=True)][:_MOST_FAILURES]:
        labels = list(dict.fromkeys(label(run.config) for run in group))
        more = f" and {count_label(len(labels) - 1, 'other setting')}" if len(labels) > 1 else ""
        yield f"  {count:>{width}}  {group[0].run_key[:12]}  {labels[0]}{more}: {reason}"
    if rest := sum(len(group) for _, group in rows[_MOST_FAILURES:]):
        yield f"  … and {rest:,} more; idwbench runs list --state failed"


def _reason(run: StoredRun) -> str:
    """Return the last line of the stored error, without characters that control a terminal."""
    text = printable(last_line(run.error), kept="") or "no reason"
    return text if len(text) <= _REASON_WIDTH else f"{text[: _REASON_WIDTH - 1]}…"
