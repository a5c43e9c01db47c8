"""`idwbench train`: train and store one run, and write its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from idwbench.attention.scores import METHODS
from idwbench.cli.completion import complete_dataset, complete_method
from idwbench.cli.options import (
    DATA,
    DEFAULT_DATABASE,
    MODEL,
    PROTOCOL,
    TRAINING,
    Database,
    DataDir,
    Device,
    Engine,
    Force,
    Json,
    Parameters,
    Plugins,
    key_values,
    load_plugins,
)
from idwbench.cli.output import echo, echo_json, print_metrics
from idwbench.cli.settings import DATASET_SETTINGS, with_settings
from idwbench.runs.datasets import DATASETS, FileConfig, LanguageConfig

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun

__all__ = ["train"]

# Without the user's own files, and without texts: this command trains prototype networks.
_NAMES = [name for name, kind in DATASETS.items() if not issubclass(kind, FileConfig | LanguageConfig)]


@with_settings
def train(
    dataset: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(_NAMES)}, or the path of a .npz, .csv or .tsv file.",
            show_default=False,
            autocompletion=complete_dataset,
            rich_help_panel=DATA,
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(METHODS)}, or a plugin's.", autocompletion=complete_method, rich_help_panel=MODEL
        ),
    ] = "idw",
    prototypes: Annotated[int, typer.Option(help="Number of prototypes.", rich_help_panel=MODEL)] = 16,
    seed: Annotated[int, typer.Option(help="Seed of initialisation and batch order.", rich_help_panel=PROTOCOL)] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Model file to write: .pt or .safetensors.")
    ] = None,
    parameter: Parameters = None,
    dataset_option: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting of the data set, KEY=VALUE (noise=0.2, label=species); may be repeated.",
            rich_help_panel=DATA,
        ),
    ] = None,
    engine: Engine = "auto",
    device: Device = "cpu",
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Train also if the database has this run.", rich_help_panel=TRAINING)
    ] = False,
    force: Force = False,
    json: Json = False,
    **settings: Any,
) -> None:
    """Train one run, store it, and write its model.

    The default protocol is that of the data set. A run that the database already has is not trained again: the same
    configuration and seed give the same result.
    """
    load_plugins(plugin)
    if output is not None:
        from idwbench.files import check_model_path, check_output

        check_model_path(output)
        check_output(output, overwrite=force)
    options = key_values("dataset_option", dataset_option)
    own_options = {name: settings.pop(name) for name in DATASET_SETTINGS if name in settings}
    extra = key_values("parameter", parameter)
    _check_twice(options, own_options)
    _check_twice(extra, settings)
    options.update(own_options)
    settings |= {"method": method, "prototypes": prototypes, **extra}

    from idwbench.runs.config import run_config

    config = run_config({"name": dataset, **options} if options else dataset, seed=seed, **settings)

    from idwbench.cli.interruption import interruptible
    from idwbench.cli.progress import RunProgress
    from idwbench.results.store import Results
    from idwbench.sweep.execution import train as train_run

    with interruptible(lambda: "nothing new was stored"), RunProgress() as progress:
        run = train_run(config, db, engine=engine, device=device, data_dir=data_dir, retrain=retrain, observer=progress)
    if not progress.trained:
        note = f"run {run.run_key[:12]} is in the database already (engine {run.engine}); --retrain trains it again"
        echo(note, err=True)
    if output is not None:
        from idwbench.models.model_file import save_model
        from idwbench.models.saved_model import stored_model

        save_model(stored_model(Results(db, read_only=True), run, data_dir), output, overwrite=force)
    _print_run(run, output, json)


def _check_twice(extra: dict[str, Any], settings: dict[str, Any]) -> None:
    from idwbench.errors import ConfigError

    for name in extra.keys() & settings.keys():
        raise ConfigError("is given twice", location=(name,))


def _print_run(run: StoredRun, output: Path | None, as_json: bool) -> None:
    if as_json:
        metrics = {f"{split}_{name}": value for (split, name), value in run.metrics.items()}
        facts = {"run_key": run.run_key, "state": run.state, **metrics, "model": str(output) if output else None}
        echo_json(facts)
        return
    if run.state == "diverged":
        echo(f"diverged in epoch {run.diverged_epoch}")
    print_metrics(run.metrics)
    if output:
        echo(f"model {output}")
