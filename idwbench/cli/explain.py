"""`idwbench explain`: what in its memory a model attends to when it answers one input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import idwbench
from idwbench.cli.options import NOT_WITH, ONLY_WITH, Refused, data_option, option
from idwbench.cli.output import echo, echo_json, print_line, print_table, print_warnings
from idwbench.errors import ExplanationError
from idwbench.files import check_output
from idwbench.report.labels import cell_label
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from idwbench.explanations.explanation import Explanation, MaskEffect
    from idwbench.explanations.passages import ExplainedPrompt

__all__ = ["OPTIONS", "REFUSED", "explain"]

OPTIONS = {
    "prompt": data_option(help="Text that a recorded lstm_lm reads, in place of --x, or DATASET:SPLIT:TOKEN."),
    "passage": data_option(help="A part of the training text, whose rank is printed; with --prompt."),
    "steps": data_option(help="Only these steps of the training, such as 1 100; with --prompt.", metavar="FIRST LAST"),
    "top": option(help="Number of prototypes, training samples or passages of each layer.", min=1),
    "layer": option(help="Only this layer, such as layer_0 of a recorded mlp."),
    "mask": option(
        help="Answer again without a part of the memory: label=CLASS or task=NAME. Several with the same word remove "
        "what any of them names; label and task together remove what matches both."
    ),
    "output": option("-o", "--output", help="Figure to write (.png, .svg, .pdf), with pictures of the memory."),
}
REFUSED: dict[str, list[Refused]] = {
    "explain": [(NOT_WITH, "prompt", "x mask output"), (ONLY_WITH, "prompt", "passage steps")]
}
# Columns of names; the others are numbers.
_TEXTS = ("source", "class", "task", "nearest", "outside")
_NOUNS = {"prototypes": "prototypes", "training data": "training samples", "history of training": "slots"}


def explain(
    model: str,
    x: str | None = None,
    prompt: str | None = None,
    passage: str | None = None,
    steps: tuple[int, int] | None = None,
    top: int = 10,
    layer: str | None = None,
    mask: list[str] | None = None,
    output: Path | None = None,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Show the prototypes, training samples or training steps that an answer attends to.

    A prototype network, and a network with a head of prototypes, attend to their prototypes. Kernel regression
    attends to the training data, and an mlp or lstm_lm with record: true to the history of its training.
    """
    if prompt is not None:
        options: dict[str, Any] = {"layer": layer, "passage": passage, "steps": steps, "data_dir": data_dir}
        return _explain_prompt(model, prompt, top, db, json, options)
    if x is None:
        raise ExplanationError("give --x, or --prompt for a language model")
    if output is not None:
        from idwbench.figures.style import check_figure_path

        check_figure_path(output)
        check_output(output, overwrite=force)
    masks = mask or ()
    with _progress() as shown:
        explained = idwbench.explain(model, x, db, top=top, layer=layer, mask=masks, data_dir=data_dir, on_slots=shown)
    if output is not None:
        from idwbench.figures.explanations import draw_explanation
        from idwbench.figures.style import save_figure

        save_figure(draw_explanation(explained), output, overwrite=force)
    print_warnings(explained.warnings)
    if json:
        echo_json({**explained.facts(), "figure": str(output) if output else None})
        return
    _print_explanation(explained)
    if output is not None:
        echo(f"figure {output}")


def _explain_prompt(model: str, prompt: str, top: int, db: str, json: bool, options: dict[str, Any]) -> None:
    from idwbench.models.saved_model import find_stored_run

    run = find_stored_run(model, db, ExplanationError)
    if run is None:
        raise ExplanationError("a model file takes no prompt; give the key of a stored run", location=("prompt",))
    results, key = idwbench.Results(db, read_only=True), run.run_key
    with _progress() as shown:
        explained = idwbench.explain_prompt(results, key, prompt, top, on_slots=shown, **options)
    print_warnings(explained.warnings)
    echo_json(explained.facts()) if json else _print_passages(explained)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Return a function that shows a bar on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("attention", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _print_explanation(explained: Explanation) -> None:
    query = explained.query
    known = explained.class_name(query.label) or ("" if query.target is None else cell_label(query.target.tolist()))
    print_line(explained.model)
    print_line(f"input {query.text}{f', target {known}' if known else ''}")
    if query.missing:
        print_line(f"without a value, and filled in as in the training data: {', '.join(query.missing)}")
    print_line(f"answer {explained.answer_text(explained.answer)}")
    for layer in explained.layers:
        of_all = f"of {layer.size:,} {_NOUNS[explained.memory]}"
        echo(f"\n{layer.name}: the {len(layer.items)} largest {explained.weight_name}s {of_all}")
        print_table(explained.table(layer), texts=_TEXTS)
        if compared := explained.comparison(layer):
            echo()
            print_table(compared, texts=compared)
    if explained.class_names:
        echo(f"\ntotal {explained.weight_name} by class (* the largest)")
        print_table(_classes(explained), texts=_TEXTS)
    if explained.effect is not None:
        _print_effect(explained, explained.effect)


def _classes(explained: Explanation) -> dict[str, list[str]]:
    """Return total weights by class, with a column for each layer, whose largest number has a star."""
    columns = {"class": list(explained.class_names)}
    for layer in explained.layers:
        best = int(layer.totals.argmax())
        columns[layer.name] = [f"{total:.4g}{' *' if c == best else '  '}" for c, total in enumerate(layer.totals)]
    return columns


def _print_effect(explained: Explanation, effect: MaskEffect) -> None:
    removed = f"{effect.removed:,} of {effect.size:,} {_NOUNS[explained.memory]}"
    before, after = map(explained.answer_text, (explained.answer, effect.answer))
    print_line(f"without {', '.join(effect.conditions)} ({removed}): {before} -> {after}")
    for change in effect.accuracy:
        echo(f"{change.name}: accuracy {100 * change.before:.2f} -> {100 * change.after:.2f} % ({change.n:,} inputs)")


def _print_passages(explained: ExplainedPrompt) -> None:
    """Print the passages behind the next token of a prompt."""
    print_line(explained.model)
    print_line(f"prompt {_shown(explained.tokenizer.join(explained.prompt))}")
    likely = (f"{_shown(token)} {100 * probability:.1f} %" for token, probability in explained.next_tokens[:5])
    print_line(f"next {', '.join(likely)}")
    if explained.following is not None:
        print_line(f"in the text {_shown(explained.following)}")
    for layer in explained.layers:
        title = f"{len(layer.passages)} passages of the {layer.hits:,} slots with the largest attention"
        echo(f"\n{layer.name}: {title}, of {layer.slots:,}")
        print_table(explained.table(layer), texts=["title", "passage"])
        above = f" ({layer.lowest.title})" if layer.lowest.title else ""
        print_line(f"least: {cell_label(layer.lowest.attention)}, {explained.text(layer.lowest)}{above}")
        if (given := layer.given) is not None:
            place = f"rank {given.rank:,} of {given.stretches:,} stretches of its length"
            print_line(f"the passage: {place}, attention {cell_label(given.attention)}")


def _shown(text: str) -> str:
    """Return a text between quotation marks, with line ends as ⏎."""
    from idwbench.explanations.passages import LINE_END

    return f"'{text.replace(chr(10), LINE_END)}'"
