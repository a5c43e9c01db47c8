"""`idwbench explain`: what in its memory a model attends to when it answers one input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.options import DATA, load_plugins, option, refuse
from idwbench.errors import ExplanationError
from idwbench.results import DEFAULT_DATABASE

if TYPE_CHECKING:
    from idwbench.explanations.explanation import Explanation

__all__ = ["OPTIONS", "explain"]

OPTIONS = {
    "prompt": option("Text that a recorded lstm_lm reads, in place of --x.", panel=DATA),
    "top": option("Number of prototypes, training samples or passages of each layer.", min=1),
    "layer": option("Only this layer, such as layer_0 of a recorded mlp."),
    "mask": option(
        "Also answer without a part of the memory: label=CLASS or task=NAME. Several with the same word mean any of "
        "them; label and task together mean what meets both."
    ),
    "output": option("Figure to write (.png, .svg, .pdf), with pictures of the memory.", "-o", "--output"),
}


def explain(
    model: str,
    x: str | None = None,
    prompt: str | None = None,
    top: int = 10,
    layer: str | None = None,
    mask: list[str] | None = None,
    output: Path | None = None,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    plugin: list[Path] | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Show the prototypes, training samples or training steps that an answer attends to.

    The memory of a prototype network and of a network with a head of prototypes are its prototypes, that of kernel
    regression the training data, and that of an mlp or lstm_lm with record: true the history of its training.
    """
    if x is None and prompt is None:
        raise ExplanationError("give --x, or --prompt for a language model")
    if prompt is not None:
        refuse("cannot be combined with --prompt", x=x, mask=mask, output=output)
    load_plugins(plugin)
    if prompt is not None:
        _explain_prompt(model, prompt, top, layer, db, data_dir, json)
        return
    if output is not None:
        from idwbench.figures.style import check_figure_path
        from idwbench.files import check_output

        check_figure_path(output)
        check_output(output, overwrite=force)

    assert x is not None  # checked above
    from idwbench.cli.explain_output import print_explanation
    from idwbench.explanations.explain import explain as explain_answer

    with _progress() as on_slots:
        explained = explain_answer(
            model, x, db, top=top, layer=layer, mask=mask or (), data_dir=data_dir, on_slots=on_slots
        )
    if output is not None:
        _draw(explained, output, force)
    print_explanation(explained, output, json)


def _explain_prompt(
    model: str, prompt: str, top: int, layer: str | None, db: str, data_dir: Path | None, json: bool
) -> None:
    from idwbench.cli.explain_output import print_passages
    from idwbench.explanations.passages import explain_prompt
    from idwbench.models.saved_model import find_stored_run
    from idwbench.results.store import Results

    run = find_stored_run(model, db, ExplanationError)
    if run is None:
        raise ExplanationError("a model file reads none; give the key of a stored run", location=("prompt",))
    results = Results(db, read_only=True)
    with _progress() as on_slots:
        explained = explain_prompt(results, run.run_key, prompt, top, layer=layer, data_dir=data_dir, on_slots=on_slots)
    print_passages(explained, json)


def _draw(explained: Explanation, output: Path, force: bool) -> None:
    from idwbench.figures.explanations import draw_explanation
    from idwbench.figures.style import save_figure

    save_figure(draw_explanation(explained), output, overwrite=force)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Return a function that shows a bar on stderr, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("attention", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
