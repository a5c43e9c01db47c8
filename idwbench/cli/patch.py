"""`idwbench patch`: repair one answer of a model by adding one prototype."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from idwbench.cli.options import DataDir, Force, Json, Plugins, load_plugins

if TYPE_CHECKING:
    from idwbench.data.dataset import Dataset
    from idwbench.modelfile import SavedModel
    from idwbench.patching import Demand, Patch, SplitEffect

__all__ = ["patch"]


def patch(
    model: Annotated[Path, typer.Argument(help="The model file (.pt or .safetensors) of an idw model.")],
    x: Annotated[
        str,
        typer.Option(
            "--x",
            help="The input, in the data's own units: numbers 0.0,1.0; an .npy or image file; or DATASET:SPLIT:INDEX, "
            "as in mnist:test:17.",
            show_default=False,
        ),
    ],
    label: Annotated[str, typer.Option(help="The class it should get: its name or number.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Model file to write; without it nothing is written.")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="Win by this fraction over the exact tie. [default: 0.001]", show_default=False),
    ] = None,
    logit_margin: Annotated[
        float | None, typer.Option(help="Win by this difference of logits.", show_default=False)
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="Win with this probability.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what the patch would do; write nothing.")] = False,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Add the smallest prototype after which one input gets a wanted label, and say what else that changes.

    The new key is the input; its value is η for the wanted class and 0 for the others, with the exact η. Predictions on
    the model's own train and test data are compared before and after, the patched one included.
    """
    if output is None and not dry_run:
        from idwbench.errors import PatchError

        raise PatchError("give -o FILE to write the patched model, or --dry-run")
    load_plugins(plugin)
    if output is not None and not dry_run:
        from idwbench.modelfile import check_model_path
        from idwbench.output import check_output

        check_model_path(output)
        check_output(output, overwrite=force)

    # These load torch, which `limited_threads` must find loaded.
    from idwbench.engine.threads import limited_threads
    from idwbench.modelfile import load_model, save_model
    from idwbench.patching import apply_patch, check_patch, make_patch
    from idwbench.query import find_label, find_query

    demand = _demand(margin, logit_margin, confidence)
    # Predictions come in many small chunks: on a busy machine, threads would spend their time waiting for each other.
    with limited_threads(1):
        saved = load_model(model)
        wanted = find_label(label, saved.class_names)
        query = find_query(x, saved, data_dir)
        made = make_patch(saved.network, query, wanted, demand)
        if made is None:
            _print_unchanged(saved, wanted, json)
            return
        _warn_if_raised(made)
        patched = _with_patch(saved, made, apply_patch(saved.network, made), x)
        effects = _effects(saved, patched, data_dir)
        if output is not None and not dry_run:
            save_model(patched, output, overwrite=force, check=lambda again: check_patch(again.network, made))
    _print_patch(saved, made, effects, None if dry_run else output, json)


def _demand(margin: float | None, logit_margin: float | None, confidence: float | None) -> Demand:
    from idwbench.errors import ConfigError
    from idwbench.patching import Demand

    given: dict[str, float | None] = {"margin": margin, "logit_margin": logit_margin, "confidence": confidence}
    chosen = [(kind, amount) for kind, amount in given.items() if amount is not None]
    if len(chosen) > 1:
        raise ConfigError("--margin, --logit-margin and --confidence: give one of them")
    if not chosen:
        return Demand()
    kind, amount = chosen[0]
    return Demand(kind, amount)  # type: ignore[arg-type]  # the keys of `given` are its kinds


def _warn_if_raised(made: Patch) -> None:
    if made.demand != made.asked:
        raised = f"margin raised from {made.asked.amount:g} to {made.demand.amount:g}"
        typer.echo(f"warning: {raised}: float32 cannot hold less", err=True)


def _with_patch(saved: SavedModel, made: Patch, network: Any, x: str) -> SavedModel:
    from dataclasses import replace

    record = {
        "x": x,
        "label": made.label,
        "eta": made.eta,
        "demand": made.demand.kind,
        "amount_asked": made.asked.amount,
        "amount": made.demand.amount,
        "label_before": made.label_before,
    }
    return replace(saved, network=network, patches=(*saved.patches, record))


def _effects(before: SavedModel, after: SavedModel, data_dir: Path | None) -> dict[str, SplitEffect]:
    """Return the effect on each split of the model's own data; nothing, with a warning, if the data is not there."""
    from idwbench.data.loading import load_dataset
    from idwbench.errors import DatasetError
    from idwbench.patching import split_effect

    try:
        dataset: Dataset = load_dataset(before.config.dataset, data_dir)
    except DatasetError as error:
        typer.echo(f"warning: the effect on other inputs is not measured: {error}", err=True)
        return {}
    if (dataset.n_features, dataset.n_classes) != (before.n_features, before.n_classes):
        typer.echo("warning: the effect on other inputs is not measured: the data does not fit the model", err=True)
        return {}
    splits = {"train": dataset.train, "test": dataset.test}
    return {name: split_effect(before.network, after.network, split) for name, split in splits.items()}


def _print_unchanged(saved: SavedModel, label: int, as_json: bool) -> None:
    name = saved.class_names[label]
    if as_json:
        import json

        typer.echo(json.dumps({"changed": False, "label": label, "class": name}))
        return
    typer.echo(f"already right: the model answers {name} as asked; nothing was changed or written")


def _print_patch(
    saved: SavedModel, made: Patch, effects: dict[str, SplitEffect], output: Path | None, as_json: bool
) -> None:
    if as_json:
        import dataclasses
        import json

        facts = {
            "changed": True,
            "label_before": made.label_before,
            "label": made.label,
            "eta": made.eta,
            "demand": dataclasses.asdict(made.asked),
            "demand_used": dataclasses.asdict(made.demand),
            "confidence": made.confidence,
            "logit_margin": made.logit_margin,
            "effects": {name: dataclasses.asdict(effect) for name, effect in effects.items()},
            "model": str(output) if output else None,
        }
        typer.echo(json.dumps(facts, allow_nan=False))
        return
    names = saved.class_names
    typer.echo(f"label {names[made.label_before]} -> {names[made.label]}")
    typer.echo(f"eta {made.eta:.6g} ({made.demand.kind.replace('_', ' ')} {made.demand.amount:g})")
    typer.echo(f"at this input: probability {made.confidence:.4f}, logit margin {made.logit_margin:.4g}")
    for name, effect in effects.items():
        typer.echo(
            f"{name}: {effect.changed} of {effect.n} predictions changed, "
            f"accuracy {100 * effect.accuracy_before:.2f} -> {100 * effect.accuracy_after:.2f} %"
        )
    typer.echo(f"model {output}" if output else "nothing was written")
