"""What `idwbench patch` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.output import echo, echo_json, print_line, print_table
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from idwbench.models.patch_records import RecordedPatch
    from idwbench.models.patching import Patch
    from idwbench.models.repair import Repair
    from idwbench.models.saved_model import SavedModel

__all__ = ["print_patches", "print_repair"]

_LONGEST_INPUT = 30


def print_repair(made: Repair, undone: int | None, output: Path | None, as_json: bool) -> None:
    """Print what a repair changed; `output` is the file written, `undone` the number of a patch removed."""
    for warning in made.warnings:
        print_line(f"warning: {warning.replace('keep_logits', '--keep-logits')}", err=True)
    if as_json:
        written = str(output) if output and made.is_changed else None
        facts = made.facts() | ({} if undone is None else {"undone": undone})
        echo_json({**facts, "model": written})
        return
    if not made.is_changed:
        _print_unchanged(made)
        return
    if undone is not None:
        echo(f"patch {undone} undone, {len(made.after.patches)} left")
    elif len(made.patches) == 1 and made.patches[0] is not None:
        _print_patch(made, made.patches[0])
    else:
        n_made = sum(patch is not None for patch in made.patches)
        n_right = len(made.patches) - n_made
        right = f", {count_label(n_right, 'input')} needed none" if n_right else ""
        made_words = "1 patch" if n_made == 1 else f"{n_made} patches"
        echo(f"{made_words}{right}; all {len(made.patches)} inputs get their labels")
    if made.solved_again:
        numbers = ", ".join(map(str, made.solved_again))
        reason = "earlier patches would have been broken, " if undone is None else ""
        renumbered = "" if undone is None else " of those left"
        echo(f"{reason}new eta for patch {numbers}{renumbered}")
    for name, effect in made.effects.items():
        echo(
            f"{name}: {effect.changed} of {effect.n} predictions changed, "
            f"accuracy {100 * effect.accuracy_before:.2f} -> {100 * effect.accuracy_after:.2f} %"
        )
    echo(f"model {output}" if output else "nothing was written")


def _print_unchanged(made: Repair) -> None:
    if len(made.inputs) == 1:
        answer = made.before.class_names[made.inputs[0].label]
        echo(f"already right: the model answers {answer} as requested; nothing was changed or written")
    else:
        echo(f"already right: all {len(made.inputs)} inputs get their labels; nothing was changed or written")


def _print_patch(made: Repair, patch: Patch) -> None:
    names, used = made.before.class_names, patch.criterion_used
    echo(f"label {names[patch.label_before]} -> {names[patch.label]}")
    echo(f"eta {patch.eta:.6g} ({used.kind.replace('_', ' ')} {used.amount:g})")
    echo(f"at this input: probability {patch.confidence:.4f}, logit margin {patch.logit_margin:.4g}")


def print_patches(model: SavedModel, path: Path, as_json: bool) -> None:
    """Print the patches of a model, and whether each still holds."""
    patches = model.recorded_patches()
    if as_json:
        echo_json({"model": str(path), "patches": [_facts(model, patch) for patch in patches]})
        return
    if not patches:
        echo("no patches")
        return
    records, names = [patch.record for patch in patches], model.class_names
    columns = {
        "patch": [str(patch.number) for patch in patches],
        "x": [_input(record.x) for record in records],
        "label": [f"{names[record.label_before]} -> {names[record.label]}" for record in records],
        "criterion": [f"{record.criterion.replace('_', ' ')} {record.amount:g}" for record in records],
        "eta": [f"{record.eta:.6g}" for record in records],
        "value": ["z + eta e_c" if record.keep_logits else "eta e_c" for record in records],
        "holds": ["yes" if patch.holds else "no" for patch in patches],
    }
    print_table(columns, texts=columns.keys() - {"patch", "eta"})


def _input(x: str | Sequence[float]) -> str:
    text = x if isinstance(x, str) else ",".join(f"{number:g}" for number in x)
    return text if len(text) <= _LONGEST_INPUT else f"{text[: _LONGEST_INPUT - 3]}..."


def _facts(model: SavedModel, patch: RecordedPatch) -> dict[str, object]:
    record = patch.record
    return {
        "number": patch.number,
        "x": record.x,
        "label": record.label,
        "class": model.class_names[record.label],
        "label_before": record.label_before,
        "criterion": {"kind": record.criterion, "amount": record.amount_requested},
        "criterion_used": {"kind": record.criterion, "amount": record.amount},
        "eta": record.eta,
        "keep_logits": record.keep_logits,
        "holds": patch.holds,
    }
