"""`idwbench train`: one run, stored, and its model in a file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from idwbench.cli.options import (
    DEFAULT_DATABASE,
    Database,
    DataDir,
    Device,
    Engine,
    Force,
    Json,
    Plugins,
    key_values,
    load_plugins,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from idwbench.config import RunConfig
    from idwbench.data.dataset import Dataset
    from idwbench.engine.choice import EngineChoice
    from idwbench.results.records import EndedState, StoredRun
    from idwbench.results.store import ResultsStore

__all__ = ["train"]

_Parsed = TypeVar("_Parsed")


def train(
    dataset: Annotated[
        str, typer.Option(help="two_moons, digits, mnist, fashion_mnist, or a .npz or .csv file.", show_default=False)
    ],
    method: Annotated[
        str, typer.Option(help="fc_relu, scaled_dot, cosine, neg_dist, gaussian, inv_dist, idw, or a plugin's.")
    ] = "idw",
    prototypes: Annotated[int, typer.Option(help="How many keys and values to learn.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of initialisation and batches.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Model file to write: .pt or .safetensors.")
    ] = None,
    power: Annotated[float | None, typer.Option(help="p of neg_dist, inv_dist and idw.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε of inv_dist and idw.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="Any other parameter of the method, KEY=VALUE; may be given again.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Inputs a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam, at the start.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Of the learning rate: cosine or constant.")] = None,
    dataset_option: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the data set, KEY=VALUE (noise=0.2, label=species); may be given again."),
    ] = None,
    engine: Engine = "auto",
    device: Device = "cpu",
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Train even if the database holds this run.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train one run, store it, and write its model.

    Without protocol options the paper's protocol for the data set is followed. A run that the database holds already is
    not trained again: same configuration and seed, same result.
    """
    load_plugins(plugin)
    if output is not None:
        _check_output(output, force)
    protocol = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "schedule": schedule}
    parameters = _given({"power": power, "epsilon": epsilon})
    others = key_values("--parameter", parameter)
    if twice := sorted(parameters.keys() & others):
        from idwbench.errors import ConfigError

        raise ConfigError(f"--parameter {twice[0]}: is given by --{twice[0]} too")
    config = _config(dataset, dataset_option, method, prototypes, seed, _given(protocol), {**parameters, **others})

    from idwbench.data.loading import load_dataset
    from idwbench.engine.choice import EngineChoice
    from idwbench.results.store import ResultsStore

    choice = EngineChoice(engine, device)
    data = load_dataset(config.dataset, data_dir)
    store = ResultsStore.open(db)
    run = _stored(config, data, store, choice, retrain)
    if output is not None:
        _write_model(run, data, store, output, force)
    _print_run(run, output, json)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _check_output(output: Path, force: bool) -> None:
    from idwbench.modelfile import check_model_path
    from idwbench.output import check_output

    check_model_path(output)
    check_output(output, overwrite=force)


def _config(
    dataset: str,
    dataset_options: list[str] | None,
    method: str,
    prototypes: int,
    seed: int,
    protocol: dict[str, Any],
    parameters: dict[str, Any],
) -> RunConfig:
    from idwbench.config import dataset_mapping, default_protocol, parse_dataset, parse_protocol, parse_run
    from idwbench.data.files import resolve_files

    settings = {**dataset_mapping(dataset), **key_values("--dataset-option", dataset_options)}
    named = _told_as("--dataset-option {}", lambda: parse_dataset(settings))
    resolved = resolve_files(named, Path.cwd())
    settled = _told_as("--{}", lambda: parse_protocol(protocol, default_protocol(resolved.name)))
    return _told_as("--{}", lambda: parse_run(resolved, method, prototypes, settled, seed, parameters))


def _told_as(option: str, parse: Callable[[], _Parsed]) -> _Parsed:
    """Return what `parse` gives; an error that names a key by its place alone is told by its option."""
    from idwbench.errors import ConfigError

    try:
        return parse()
    except ConfigError as error:
        key = str(error.location[-1]) if error.location else ""
        if not key or f"'{key}'" in str(error) or str(error).startswith((f"{key}:", "unknown ")):
            raise
        word = key if "dataset" in option else key.replace("_", "-")
        raise ConfigError(f"{option.format(word)}: {error}") from None


def _stored(config: RunConfig, dataset: Dataset, store: ResultsStore, choice: EngineChoice, retrain: bool) -> StoredRun:
    """Return the run as the database holds it, trained first if need be."""
    from idwbench.errors import ResultsError, TrainingError

    key = config.run_key
    store.plan([config])
    retried: tuple[EndedState, ...] = ("complete", "diverged", "failed") if retrain else ("failed",)
    store.reset([key], retried)
    if not store.pending([key]):
        run = store.find_run(key)
        typer.echo(
            f"run {key[:12]} is in the database already (engine {run.engine}); --retrain trains it again", err=True
        )
        return run

    from idwbench.cli.progress import SweepProgress
    from idwbench.engine.threads import limited_threads
    from idwbench.sweep.runner import run_pending

    try:
        choice.prepare([config], say=partial(typer.echo, err=True))
        with limited_threads(1), SweepProgress(1) as progress:
            outcome = run_pending([config], store, choice, dataset, progress)
    except KeyboardInterrupt:
        typer.echo("interrupted: nothing new was stored", err=True)
        raise typer.Exit(130) from None
    if outcome.elsewhere:
        raise ResultsError(f"run {key[:12]} is being trained by another process")
    run = store.find_run(key)
    if outcome.failed:
        raise TrainingError(f"run {key[:12]} failed: {(run.error or '').strip().splitlines()[-1]}")
    return run


def _write_model(run: StoredRun, dataset: Dataset, store: ResultsStore, output: Path, force: bool) -> None:
    import torch

    from idwbench.errors import TrainingError
    from idwbench.modelfile import save_model, saved_model

    if run.state != "complete":
        raise TrainingError(f"the run {run.state} in epoch {run.diverged_epoch}: there is no model to write")
    tensors = store.load_tensors(run.run_key)
    model = saved_model(
        run.config,
        dataset,
        torch.from_numpy(tensors["keys"]),
        torch.from_numpy(tensors["values"]),
        engine=run.engine or "",
        device=run.device or "",
        versions=run.versions,
        data_sha256=run.data_sha256,
    )
    save_model(model, output, overwrite=force)


def _print_run(run: StoredRun, output: Path | None, as_json: bool) -> None:
    accuracies = {
        "train": run.train_accuracy,
        "test": run.test_accuracy,
        "holdout": run.holdout_accuracy,
    }
    if as_json:
        import json

        facts = {f"{split}_accuracy": accuracy for split, accuracy in accuracies.items()}
        typer.echo(
            json.dumps({"run_key": run.run_key, "state": run.state, **facts, "model": str(output) if output else None})
        )
        return
    if run.state == "diverged":
        typer.echo(f"diverged in epoch {run.diverged_epoch}")
    for split, accuracy in accuracies.items():
        if accuracy is not None:
            typer.echo(f"{split} accuracy {100 * accuracy:.2f} %")
    if output:
        typer.echo(f"model {output}")
