"""`idwbench patch`: change the answers of a model by adding prototypes, list them, and remove them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.options import argument, option, refuse
from idwbench.cli.output import echo, echo_json, print_line, print_table
from idwbench.errors import PatchError
from idwbench.files import check_model_path, check_output
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from idwbench.models.repair import Repair
    from idwbench.models.saved_model import SavedModel

__all__ = ["OPTIONS", "patch"]

_LONGEST_INPUT = 30

OPTIONS = {
    "model": argument("The model file (.pt or .safetensors) of an idw model."),
    "label": option("Target class of --x: its name or number.", panel="Data"),
    "file": option("CSV file with the columns x and label: patches that hold together.", panel="Data"),
    "list_patches": option("List the patches of the model.", "--list"),
    "undo": option("Remove the patch with this number in --list."),
    "output": option("Model file to write; required without --dry-run or --list.", "-o", "--output"),
    "margin": option("Relative margin over the exact tie (default: 0.001).", panel="Criterion"),
    "logit_margin": option("Required difference of logits.", panel="Criterion"),
    "confidence": option("Required probability.", panel="Criterion"),
    "keep_logits": option(
        "The new value is z(q) + η e_c, which keeps the logits at the input.", "--keep-logits", panel="Criterion"
    ),
    "dry_run": option("Print the effect without writing a file.", "--dry-run"),
}


def patch(
    model: Path,
    x: str | None = None,
    label: str | None = None,
    file: Path | None = None,
    list_patches: bool = False,
    undo: int | None = None,
    output: Path | None = None,
    margin: float | None = None,
    logit_margin: float | None = None,
    confidence: float | None = None,
    keep_logits: bool = False,
    dry_run: bool = False,
    data_dir: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Add prototypes to a model so that inputs get their target labels, and report the effect on other inputs.

    The new key is the input; its value is the smallest sufficient η for the target class and 0 for the others. Patches
    that the model has already still hold afterwards. Predictions on the train and test data of the model are compared
    before and after.
    """
    given = {"x": x, "label": label, "file": file, "undo": undo, "list": list_patches or None}
    action = _action([name for name, value in given.items() if value is not None])
    amounts = {"margin": margin, "logit_margin": logit_margin, "confidence": confidence}
    if action in ("undo", "list"):
        refuse(f"cannot be combined with --{action}", **amounts, keep_logits=keep_logits)
    if action == "list":
        refuse("cannot be combined with --list", output=output, dry_run=dry_run)
    elif output is None and not dry_run:
        raise PatchError("give -o FILE to write the patched model, or --dry-run")
    target = None if dry_run else output
    if target is not None:
        check_model_path(target)
        check_output(target, overwrite=force)

    from idwbench.models import repair
    from idwbench.models.criteria import Criterion
    from idwbench.models.model_file import load_model
    from idwbench.training.threads import limited_threads

    criterion = Criterion.of(**amounts)
    # For many small chunks several threads have more overhead than gain.
    with limited_threads(1), _naming(model):
        loaded = load_model(model)
        if action == "list":
            return _print_patches(loaded, model, json)
        if undo is not None:
            made = repair.undo(loaded, undo, data_dir=data_dir)
        elif file is not None:
            made = repair.repair_file(loaded, file, criterion, keep_logits=keep_logits, data_dir=data_dir)
        else:
            made = repair.repair(loaded, x or "", label or "", criterion, keep_logits=keep_logits, data_dir=data_dir)
        if target is not None:
            made.save(target, overwrite=force)
    _print_repair(made, undo, target, json)


@contextmanager
def _naming(model: Path) -> Iterator[None]:
    """Add the file's name to the errors of a model that do not have one."""
    from idwbench.errors import ModelFileError

    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(error.problem, hint=error.hint, file=error.file or model) from None


def _action(asked: list[str]) -> str:
    """Return the one action that is asked for: x, file, undo or list.

    Raises:
        PatchError: none or several.
    """
    if not asked:
        raise PatchError("give --x and --label, --file, --undo or --list")
    if asked in (["x"], ["label"]):
        raise PatchError(f"--{'label' if asked == ['x'] else 'x'} is missing", hint="each input needs a label")
    if len(asked) > 1 and asked != ["x", "label"]:
        name = "list_patches" if asked[-1] == "list" else asked[-1]
        raise PatchError(f"cannot be combined with --{asked[0]}", location=(name,))
    return asked[0]


def _print_repair(made: Repair, undone: int | None, output: Path | None, as_json: bool) -> None:
    """Print what a repair changed; `output` is the file written, `undone` the number of a patch removed."""
    for warning in made.warnings:
        print_line(f"warning: {warning.replace('keep_logits', '--keep-logits')}", err=True)
    if as_json:
        undone_facts = {} if undone is None else {"undone": undone}
        echo_json({**made.facts(), **undone_facts, "model": str(output) if output and made.is_changed else None})
        return
    print_line(_summary(made, undone))
    if not made.is_changed:
        return
    if len(made.patches) == 1 and (patch := made.patches[0]) is not None:
        used = patch.criterion_used
        echo(f"eta {patch.eta:.6g} ({used.kind.replace('_', ' ')} {used.amount:g})")
        echo(f"at this input: probability {patch.confidence:.4f}, logit margin {patch.logit_margin:.4g}")
    if made.solved_again:
        numbers = ", ".join(map(str, made.solved_again))
        reason = "earlier patches would have been broken, " if undone is None else ""
        echo(f"{reason}new eta for patch {numbers}{'' if undone is None else ' of those left'}")
    for name, effect in made.effects.items():
        echo(
            f"{name}: {effect.changed} of {effect.n} predictions changed, "
            f"accuracy {100 * effect.accuracy_before:.2f} -> {100 * effect.accuracy_after:.2f} %"
        )
    echo(f"model {output}" if output else "nothing was written")


def _summary(made: Repair, undone: int | None) -> str:
    """Return the first line on a repair."""
    names, n = made.before.class_names, len(made.patches)
    if not made.is_changed:
        right = f"all {n} inputs get their labels"
        if n == 1:
            right = f"the model answers {names[made.inputs[0].label]} as requested"
        return f"already right: {right}; nothing was changed or written"
    if undone is not None:
        return f"patch {undone} undone, {len(made.after.patches)} left"
    if n == 1 and (patch := made.patches[0]) is not None:
        return f"label {names[patch.label_before]} -> {names[patch.label]}"
    n_made = sum(patch is not None for patch in made.patches)
    right = f", {count_label(n - n_made, 'input')} needed none" if n > n_made else ""
    return f"{n_made} patch{'' if n_made == 1 else 'es'}{right}; all {n} inputs get their labels"


def _print_patches(model: SavedModel, path: Path, as_json: bool) -> None:
    """Print the patches of a model, and whether each still holds."""
    patches = model.recorded_patches()
    if as_json:
        echo_json({"model": str(path), "patches": [patch.facts(model.class_names) for patch in patches]})
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
