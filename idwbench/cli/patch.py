"""`idwbench patch`: change the answer of a model to one input by adding one prototype."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from idwbench.cli.options import DataDir, Force, Json, Plugins, load_plugins

if TYPE_CHECKING:
    from idwbench.models.repair import Repair

__all__ = ["patch"]


def patch(
    model: Annotated[Path, typer.Argument(help="The model file (.pt or .safetensors) of an idw model.")],
    x: Annotated[
        str,
        typer.Option(
            "--x",
            help="Input in the data's own units: numbers (0.0,1.0), an .npy or image file, or DATASET:SPLIT:INDEX "
            "(mnist:test:17).",
            show_default=False,
        ),
    ],
    label: Annotated[str, typer.Option(help="Target class: its name or number.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Model file to write; required without --dry-run.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Relative margin over the exact tie. [default: 0.001]", show_default=False)
    ] = None,
    logit_margin: Annotated[
        float | None, typer.Option(help="Required difference of logits.", show_default=False)
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="Required probability.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the effect without writing a file.")] = False,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Add one prototype to a model so that one input gets the target label, and report the effect on other inputs.

    The new key is the input; its value is the smallest sufficient η for the target class and 0 for the others.
    Predictions on the train and test data of the model are compared before and after.
    """
    from idwbench.errors import PatchError

    if output is None and not dry_run:
        raise PatchError("give -o FILE to write the patched model, or --dry-run")
    load_plugins(plugin)
    target = None if dry_run else output
    if target is not None:
        from idwbench.files import check_model_path, check_output

        check_model_path(target)
        check_output(target, overwrite=force)

    from idwbench.models.checkpoints import load_model
    from idwbench.models.patching import Criterion
    from idwbench.models.repair import repair
    from idwbench.training.threads import limited_threads

    criterion = Criterion.of(margin=margin, logit_margin=logit_margin, confidence=confidence)
    # For many small chunks several threads have more overhead than gain.
    with limited_threads(1):
        made = repair(load_model(model), x, label, criterion, data_dir=data_dir)
        if target is not None:
            made.save(target, overwrite=force)
    for warning in made.warnings:
        typer.echo(f"warning: {warning}", err=True)
    _print_repair(made, target, json)


def _print_repair(made: Repair, output: Path | None, as_json: bool) -> None:
    names = made.before.class_names
    if as_json:
        import json

        typer.echo(json.dumps({**made.facts(), "model": str(output) if output and made.patch else None}))
        return
    if made.patch is None:
        answer = names[made.label]
        typer.echo(f"already right: the model answers {answer} as requested; nothing was changed or written")
        return
    used = made.patch.criterion_used
    typer.echo(f"label {names[made.patch.label_before]} -> {names[made.label]}")
    typer.echo(f"eta {made.patch.eta:.6g} ({used.kind.replace('_', ' ')} {used.amount:g})")
    margin = f"logit margin {made.patch.logit_margin:.4g}"
    typer.echo(f"at this input: probability {made.patch.confidence:.4f}, {margin}")
    for name, effect in made.effects.items():
        typer.echo(
            f"{name}: {effect.changed} of {effect.n} predictions changed, "
            f"accuracy {100 * effect.accuracy_before:.2f} -> {100 * effect.accuracy_after:.2f} %"
        )
    typer.echo(f"model {output}" if output else "nothing was written")
