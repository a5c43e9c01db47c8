"""`idwbench sweep`: train what a sweep file asks for and the database lacks."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Device, Engine, Jobs, Json, Plugins, load_plugins
from idwbench.cli.status import status_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idwbench.config import RunConfig
    from idwbench.engine.choice import EngineChoice
    from idwbench.results.records import EndedState
    from idwbench.results.store import ResultsStore
    from idwbench.sweep.spec import SweepSpec

__all__ = ["sweep"]

Retry = Literal["failed", "diverged", "all"]
_RETRIED: dict[str, tuple[EndedState, ...]] = {
    "failed": ("failed",),
    "diverged": ("diverged",),
    "all": ("failed", "diverged", "complete"),
}


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep file (YAML).")],
    db: Database = DEFAULT_DATABASE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and train nothing.")] = False,
    retry: Annotated[
        Retry | None, typer.Option("--retry", help="Also train again what ended so.", show_default=False)
    ] = None,
    engine: Engine = "auto",
    device: Device = "cpu",
    jobs: Jobs = None,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    json: Json = False,
) -> None:
    """Train the runs of a sweep file that the database does not hold yet.

    Typed again, it goes on where it stopped: after Ctrl-C, after a crash, after a change of the grid. Exit code 1 if
    runs failed; diverged runs are results.
    """
    from idwbench.sweep.planner import plan
    from idwbench.sweep.spec import read_sweep

    load_plugins(plugin)
    spec = read_sweep(file)
    configs = plan(spec)
    if dry_run:
        _print_plan(spec, configs, json)
        return

    from idwbench.engine.choice import EngineChoice
    from idwbench.results.store import ResultsStore

    choice = EngineChoice(engine, device)
    store = ResultsStore.open(db)
    n_failed = _train(spec, configs, store, retry, choice, jobs, data_dir)
    _print_status(spec, store, db, json)
    if n_failed or store.sweep_status(spec.name).failed:
        raise typer.Exit(1)


def _train(
    spec: SweepSpec,
    configs: Sequence[RunConfig],
    store: ResultsStore,
    retry: Retry | None,
    choice: EngineChoice,
    jobs: int | None,
    data_dir: Path | None,
) -> int:
    """Train what is to do and return how many runs failed."""
    keys = [config.run_key for config in configs]
    store.register_sweep(spec.name, spec.description, spec.source, configs)
    if retry:
        store.reset(keys, _RETRIED[retry])
    pending = set(store.pending(keys))
    to_do = [config for config in configs if config.run_key in pending]
    status = store.sweep_status(spec.name)
    failed = 0 if retry in ("failed", "all") else status.failed
    done = len(keys) - len(to_do) - status.running - failed
    others = f", {status.running} in work elsewhere" if status.running else ""
    others += f", {failed} failed" if failed else ""
    typer.echo(f"{spec.name}: {done} of {len(keys)} done, {len(to_do)} to go{others}", err=True)
    if not to_do:
        return 0

    from idwbench.cli.progress import SweepProgress
    from idwbench.data.loading import load_dataset
    from idwbench.engine.threads import available_cores, limited_threads
    from idwbench.sweep.runner import run_pending

    try:
        choice.prepare(to_do, say=partial(typer.echo, err=True))
        dataset = load_dataset(spec.dataset, data_dir)
        # A GPU wants one large stack at a time.
        n_jobs = jobs or (available_cores() if choice.device == "cpu" else 1)
        # What is loaded by now stays: short runs would have the collector look at all of it again and again.
        gc.freeze()
        with limited_threads(1), SweepProgress(len(to_do)) as progress:
            return run_pending(to_do, store, choice, dataset, progress, n_jobs).failed
    except KeyboardInterrupt:
        left = len(store.pending(keys))
        typer.echo(f"interrupted: {len(keys) - left} of {len(keys)} done; the same command goes on", err=True)
        raise typer.Exit(130) from None
    finally:
        gc.unfreeze()


def _print_plan(spec: SweepSpec, configs: Sequence[RunConfig], as_json: bool) -> None:
    if as_json:
        import json

        typer.echo(json.dumps([{"run_key": c.run_key, **c.model_dump(mode="json")} for c in configs], indent=1))
        return
    from idwbench.cli.progress import describe

    for number, config in enumerate(configs, 1):
        typer.echo(f"{number:>5}  {config.run_key[:12]}  {describe(config)} · seed {config.seed}")
    typer.echo(f"{spec.name}: {len(configs)} runs on {spec.dataset.name}", err=True)


def _print_status(spec: SweepSpec, store: ResultsStore, db: str, as_json: bool) -> None:
    status = store.sweep_status(spec.name)
    if as_json:
        import dataclasses
        import json

        typer.echo(json.dumps({"sweep": spec.name, "db": db, **dataclasses.asdict(status)}))
        return
    typer.echo(status_line(spec.name, status), err=True)
    typer.echo(f"see: idwbench report --table {spec.name}", err=True)
