"""`idwbench patch`: change the answers of a model by adding prototypes, list them, and remove them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from idwbench.cli.options import NOT_WITH, Refused, argument, data_option, option
from idwbench.cli.output import echo, echo_json, print_line, print_table, print_warnings
from idwbench.errors import ModelFileError, PatchError
from idwbench.files import MODEL_SUFFIXES, check_model_path, check_output
from idwbench.report.labels import count_label

if TYPE_CHECKING:
    from idwbench.models.repair import Repair
    from idwbench.models.saved_model import SavedModel

__all__ = ["OPTIONS", "REFUSED", "patch"]

_patch_option = partial(option, rich_help_panel="Patch")

OPTIONS = {
    "model": argument(help="The model file (.pt or .safetensors)."),
    "label": data_option(help="Wanted class of --x: its name or number."),
    "target": data_option(help="Wanted outputs of --x for a regression, such as 3.5 or 1,2."),
    "file": data_option(help="CSV file with the columns x and label (or target): patches that hold together."),
    "keep": data_option(help="CSV file with the column x: inputs whose answers must stay."),
    "list_patches": option("--list", help="List the patches of the model."),
    "undo": data_option(help="Remove the patch with this number in --list."),
    "output": option("-o", "--output", help="Model file to write; required without --dry-run or --list."),
    "radius": _patch_option(help="Radius in scaled units; auto: no right training prediction changes."),
    "steepness": _patch_option(help="How steeply the weight falls beyond the radius (default: 32 or more)."),
    "margin": _patch_option(help="Lead over the next logit (default: 2 or more; with --exact the least)."),
    "confidence": _patch_option(help="Probability of the label, in place of --margin."),
    "exact": _patch_option("--exact", help="The paper's patch of this exact input, of the weight of the others."),
    "eta": _patch_option(help="Its value: exact, printed (Eq. 7) or authors (their code)."),
    "merge": _patch_option("--merge", help="Inputs of one label share a patch where all still hold."),
    "dry_run": option("--dry-run", help="Print the effect without writing a file."),
}
_OF_PATCHES = "radius steepness margin confidence exact eta merge keep"
REFUSED: dict[str, list[Refused]] = {
    "patch": [
        (NOT_WITH, "x", "list_patches undo file"),
        (NOT_WITH, "file", "list_patches undo label target"),
        (NOT_WITH, "undo", f"list_patches label target {_OF_PATCHES}"),
        (NOT_WITH, "list_patches", f"label target {_OF_PATCHES} output dry_run"),
        (NOT_WITH, "label", "target"),
    ]
}


def patch(
    model: Path,
    x: str | None = None,
    label: str | None = None,
    target: str | None = None,
    file: Path | None = None,
    keep: Path | None = None,
    list_patches: bool = False,
    undo: int | None = None,
    output: Path | None = None,
    radius: str = "auto",
    steepness: float | None = None,
    margin: float | None = None,
    confidence: float | None = None,
    exact: bool = False,
    eta: Literal["exact", "printed", "authors"] | None = None,
    merge: bool = False,
    dry_run: bool = False,
    data_dir: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Add prototypes to a model so that inputs get the wanted labels or targets, and report what that does.

    Each patch acts within a radius around its input: by default the largest with which no right prediction of the
    training data changes. All patches of the model are solved as a whole, so that all hold. The report has what is
    certain of each patch, the predictions that become right and wrong, and how many perturbed copies keep the label.
    """
    has_wish = label is not None or target is not None
    if list_patches:
        return _print_patches(model, json)
    if x is not None and not has_wish:
        raise PatchError("--label is missing", hint="each input needs a label, or a target of a regression")
    if x is None and file is None and undo is None:
        if has_wish:
            raise PatchError("--x is missing", hint="each label needs an input")
        raise PatchError("give --x and --label, --file, --undo or --list")
    if output is None and not dry_run:
        raise PatchError("give -o FILE to write the patched model, or --dry-run")
    written = None if dry_run else output
    if written is not None:
        check_model_path(written)
        check_output(written, overwrite=force)
    from idwbench.models.inputs import PatchLine, read_patch_file
    from idwbench.models.repair import repair

    loaded = _loaded(model)
    lines = [] if x is None else [PatchLine(x, label, target)]
    if file is not None:
        lines = read_patch_file(file, ("x", "label" if loaded.class_names else "target"))
    settings: dict[str, Any] = {"radius": radius, "steepness": steepness, "margin": margin, "confidence": confidence}
    settings |= {"kind": (eta or "exact") if exact or eta else "local", "merge": merge, "data_dir": data_dir}
    repaired = repair(loaded, lines, keep=[] if keep is None else read_patch_file(keep, ("x",)), undo=undo, **settings)
    if written is not None and repaired.is_changed:
        repaired.after.save(written, overwrite=force)
    _print_repair(repaired, undo, written, json)


def _loaded(path: Path) -> SavedModel:
    from idwbench.models.model_file import load_model

    if path.suffix.lower() not in MODEL_SUFFIXES and not path.exists():
        hint = "a stored run becomes a file by 'idwbench export'; a network is patched by Network.patch in Python"
        raise ModelFileError("no such file", hint=hint, file=path)
    return load_model(path)


def _print_repair(repaired: Repair, undone: int | None, output: Path | None, as_json: bool) -> None:
    """Print what a repair changed; `output` is the file written, `undone` the number of a patch removed."""
    print_warnings(repaired.warnings)
    if as_json:
        undone_facts = {} if undone is None else {"undone": undone}
        echo_json(
            {**repaired.facts(), **undone_facts, "model": str(output) if output and repaired.is_changed else None}
        )
        return
    for line in [_summary(repaired, undone), *_patch_lines(repaired)]:
        print_line(line)
    if repaired.is_changed:
        echo(f"model {output}" if output else "nothing was written")


def _patch_lines(repaired: Repair) -> Iterator[str]:
    """Yield what is known of the new patches: of one its own numbers, of several their ranges; and their effect."""
    if not repaired.is_changed:
        return
    records = [record for record in repaired.demands if record.has_prototype]
    steepness = ", ".join(sorted({f"{record.steepness:g}" for record in records}))
    output = "logit" if repaired.before.class_names else "output, in scaled units,"
    if repaired.probabilities:
        yield f"probability {_range(repaired.probabilities, '.4f')}"
    for name, line in (
        ("radius", f"radius {{}}, steepness {steepness} (scaled units)"),
        ("certified_radius", "certified: the label within {}"),
        ("reach", f"certified: no {output} changes by more than 0.01 beyond {{}}"),
    ):
        if numbers := [number for record in records if (number := getattr(record, name)) is not None]:
            yield line.format(_range(numbers, ".4g"))
    if repaired.kept:
        names = {"noise": "of the copies with noise", "shifts": "of the copies moved by a pixel"}
        yield "the label stays for " + " and ".join(
            f"{100 * repaired.kept[one]:.0f} % {names[one]}" for one in repaired.kept
        )
    for name, effect in repaired.effects.items():
        yield f"{name}: {effect}"


def _range(numbers: Sequence[float], form: str) -> str:
    low, high = format(min(numbers), form), format(max(numbers), form)
    return low if low == high else f"{low} to {high}"


def _summary(repaired: Repair, undone: int | None) -> str:
    """Return the first line on a repair."""
    names, n = repaired.before.class_names, len(repaired.demands)
    if not repaired.is_changed:
        right = f"all {n} inputs get what is wanted"
        if n == 1 and (label := repaired.demands[0].label) is not None:
            right = f"the model answers {names[label]} as requested"
        return f"already right: {right}; nothing was changed or written"
    if undone is not None:
        return f"patch {undone} undone, {len(repaired.after.repairs)} left"
    if n == 1 and (label := repaired.demands[0].label) is not None:
        before = int(repaired.before.outputs(repaired.demands[0].query[None])[0].argmax())
        return f"label {names[label]}, as before" if before == label else f"label {names[before]} -> {names[label]}"
    if n == 1:
        outputs = [model.outputs(repaired.demands[0].query[None])[0] for model in (repaired.before, repaired.solved)]
        return f"output {' -> '.join(_target(repaired.before, one) for one in outputs)}"
    n_new = sum(record.has_prototype for record in repaired.demands)
    return f"{count_label(n_new, 'new prototype')}; all {n} inputs hold"


def _print_patches(path: Path, as_json: bool) -> None:
    """Print the patches of a model, and whether each still holds, if its method is registered."""
    from idwbench.models.model_card import patch_table, saved_model_card
    from idwbench.models.model_file import read_card

    held, unknown = list[bool](), ""
    try:
        model = _loaded(path)
    except ModelFileError as error:  # without the plugin of its method
        if not path.exists() or (card := read_card(path)) is None:
            raise
        unknown = error.problem
        records = card["patches"]
    else:
        card, rows = saved_model_card(model), model.demanded_outputs()
        records = [record.model_dump() for record in model.repairs.records]
        held = [record.holds(row) for record, row in zip(model.repairs.records, rows, strict=True)]
    if as_json:
        pairs = zip_longest(records, held)
        echo_json({"model": str(path), "patches": [{**patch, "holds": holds} for patch, holds in pairs]})
    elif card["patches"]:
        print_table(patch_table(card, held), texts={"x", "wanted", "kind", "holds"})
        if unknown:
            print_line(f"whether they hold is not known ({path}: {unknown})")
    else:
        echo("no patches")


def _target(model: SavedModel, outputs: Sequence[float]) -> str:
    """Return scaled outputs in the targets' own units."""
    import numpy as np

    return ",".join(f"{number:g}" for number in model.target_scaling.invert(np.array(outputs)).reshape(-1))
