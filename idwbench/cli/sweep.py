"""`idwbench sweep`: train the missing runs of a sweep file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Device, Engine, Jobs, Json, Plugins, load_plugins

if TYPE_CHECKING:
    from idwbench.results.records import SweepStatus
    from idwbench.runs.datasets import DatasetConfig
    from idwbench.sweep.spec import SweepSpec

__all__ = ["sweep"]


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep file (YAML).")],
    db: Database = DEFAULT_DATABASE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan without training.")] = False,
    retry: Annotated[
        Literal["failed", "diverged", "all"] | None,
        typer.Option("--retry", help="Retrain runs in this state.", show_default=False),
    ] = None,
    engine: Engine = "auto",
    device: Device = "cpu",
    jobs: Jobs = None,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    json: Json = False,
) -> None:
    """Train the runs of a sweep file that the database does not have.

    The same command continues after an interruption, a crash, or a change of the grid. The exit code is 1 if runs
    failed; diverged runs are results.
    """
    from idwbench.sweep.spec import read_sweep

    load_plugins(plugin)
    spec = read_sweep(file)
    if dry_run:
        _print_plan(spec, json)
        return

    from idwbench.cli.progress import SweepProgress, interruptible
    from idwbench.sweep.execution import run_sweep

    with interruptible(lambda: _interrupted(spec, db)), SweepProgress(spec.name, _dataset_labels(spec)) as progress:
        status = run_sweep(
            spec, db, retry=retry, engine=engine, device=device, jobs=jobs, data_dir=data_dir, observer=progress
        )
    _print_status(spec, status, db, json)
    if status.failed or progress.n_failed:
        raise typer.Exit(1)


def _interrupted(spec: SweepSpec, db: str) -> str:
    from idwbench.results.store import Results

    status = Results(db, read_only=True).sweep_status(spec.name)
    done = status.complete + status.diverged + status.failed
    return f"{done} of {status.total} done; the same command continues"


def _print_plan(spec: SweepSpec, as_json: bool) -> None:
    from idwbench.sweep.planner import plan

    configs = plan(spec)
    if as_json:
        import json

        typer.echo(json.dumps([{"run_key": c.run_key, **c.model_dump(mode="json")} for c in configs], indent=1))
        return
    labels = _dataset_labels(spec)
    for number, config in enumerate(configs, 1):
        words = (labels.get(config.dataset, ""), config.model.label, f"seed {config.seed}")
        typer.echo(f"{number:>5}  {config.run_key[:12]}  {' · '.join(filter(None, words))}")
    names = ", ".join(dict.fromkeys(dataset.name for dataset, _ in spec.datasets))
    typer.echo(f"{spec.name}: {len(configs)} runs on {names}", err=True)


def _dataset_labels(spec: SweepSpec) -> dict[DatasetConfig, str]:
    """Return for each data set its name and the settings that vary; empty if there is one data set."""
    from idwbench.report.settings import dataset_words
    from idwbench.runs.datasets import dataset_label

    datasets = [dataset for dataset, _ in spec.datasets]
    if len(datasets) == 1:
        return {}
    words = dataset_words([dataset_label(dataset) for dataset in datasets], datasets)
    return {dataset: " · ".join(found) for dataset, found in zip(datasets, words, strict=True)}


def _print_status(spec: SweepSpec, status: SweepStatus, db: str, as_json: bool) -> None:
    if as_json:
        import dataclasses
        import json

        typer.echo(json.dumps({"sweep": spec.name, "db": db, **dataclasses.asdict(status)}))
        return
    from idwbench.cli.progress import status_line

    typer.echo(status_line(spec.name, status), err=True)
    typer.echo(f"see: idwbench report --table {spec.name}", err=True)
