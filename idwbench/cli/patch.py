"""`idwbench patch`: change the answers of a model by adding prototypes, list them, and remove them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.options import DATA, argument, load_plugins, option, refuse
from idwbench.cli.output import echo, echo_json, print_line, print_table
from idwbench.errors import PatchError
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from idwbench.models.criteria import Criterion
    from idwbench.models.patch_records import RecordedPatch
    from idwbench.models.patching import Patch
    from idwbench.models.repair import Repair
    from idwbench.models.saved_model import SavedModel

__all__ = ["OPTIONS", "patch"]

_CRITERION = "Criterion"
_LONGEST_INPUT = 30

OPTIONS = {
    "model": argument("The model file (.pt or .safetensors) of an idw model."),
    "label": option("Target class of --x: its name or number.", panel=DATA),
    "file": option("CSV file with the columns x and label: patches that hold together.", panel=DATA),
    "list_patches": option("List the patches of the model.", "--list"),
    "undo": option("Remove the patch with this number in --list."),
    "output": option("Model file to write; required without --dry-run or --list.", "-o", "--output"),
    "margin": option("Relative margin over the exact tie (default: 0.001).", panel=_CRITERION),
    "logit_margin": option("Required difference of logits.", panel=_CRITERION),
    "confidence": option("Required probability.", panel=_CRITERION),
    "keep_logits": option("The new value is z(q) + η e_c, which keeps the logits at the input.", panel=_CRITERION),
    "dry_run": option("Print the effect without writing a file."),
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
    plugin: list[Path] | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Add prototypes to a model so that inputs get their target labels, and report the effect on other inputs.

    The new key is the input; its value is the smallest sufficient η for the target class and 0 for the others. Patches
    that the model has already still hold afterwards. Predictions on the train and test data of the model are compared
    before and after.
    """
    actions = {"x": x, "label": label, "file": file, "undo": undo, "list": list_patches or None}
    action = _action({name: value for name, value in actions.items() if value is not None})
    amounts = {"margin": margin, "logit_margin": logit_margin, "confidence": confidence}
    if action in ("undo", "list"):
        refuse(f"cannot be combined with --{action}", **amounts, keep_logits=keep_logits)
    if action == "list":
        refuse("cannot be combined with --list", output=output, dry_run=dry_run)
    elif output is None and not dry_run:
        raise PatchError("give -o FILE to write the patched model, or --dry-run")
    load_plugins(plugin)
    target = None if dry_run else output
    if target is not None:
        from idwbench.files import check_model_path, check_output

        check_model_path(target)
        check_output(target, overwrite=force)

    from idwbench.models.criteria import Criterion
    from idwbench.models.model_file import load_model
    from idwbench.training.threads import limited_threads

    criterion = Criterion.of(**amounts)
    # For many small chunks several threads have more overhead than gain.
    with limited_threads(1), _naming(model):
        loaded = load_model(model)
        if action == "list":
            _print_patches(loaded, model, json)
            return
        made = _made(loaded, x or "", label or "", file, undo, criterion, keep_logits=keep_logits, data_dir=data_dir)
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


def _action(given: Collection[str]) -> str:
    """Return the one action that is asked for: x, file, undo or list.

    Raises:
        PatchError: none or several.
    """
    asked = [*given]
    if not asked:
        raise PatchError("give --x and --label, --file, --undo or --list")
    if asked in (["x"], ["label"]):
        other = "label" if asked == ["x"] else "x"
        raise PatchError(f"--{other} is missing", hint="each input needs a label")
    if len(asked) > 1 and asked != ["x", "label"]:
        name = "list_patches" if asked[-1] == "list" else asked[-1]
        raise PatchError(f"cannot be combined with --{asked[0]}", location=(name,))
    return asked[0]


def _made(
    model: SavedModel,
    x: str,
    label: str,
    file: Path | None,
    number: int | None,
    criterion: Criterion,
    *,
    keep_logits: bool,
    data_dir: Path | None,
) -> Repair:
    from idwbench.models.repair import repair, repair_file, undo

    if number is not None:
        return undo(model, number, data_dir=data_dir)
    if file is not None:
        return repair_file(model, file, criterion, keep_logits=keep_logits, data_dir=data_dir)
    return repair(model, x, label, criterion, keep_logits=keep_logits, data_dir=data_dir)


def _print_repair(made: Repair, undone: int | None, output: Path | None, as_json: bool) -> None:
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


def _print_patches(model: SavedModel, path: Path, as_json: bool) -> None:
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
