"""`idwbench explain`: what in its memory a model attends to when it answers one input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from idwbench.cli.options import (
    DATA,
    DEFAULT_DATABASE,
    Database,
    DataDir,
    Force,
    Json,
    ModelOrRun,
    Plugins,
    Query,
    load_plugins,
    refuse,
)
from idwbench.errors import ExplanationError

if TYPE_CHECKING:
    from idwbench.explanations.explanation import Explanation

__all__ = ["explain"]


def explain(
    model: ModelOrRun,
    x: Query = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Text that a recorded lstm_lm reads, in place of --x.", show_default=False, rich_help_panel=DATA
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, help="Number of prototypes, training samples or passages of each layer.")
    ] = 10,
    layer: Annotated[
        str | None, typer.Option(help="Only this layer, such as layer_0 of a recorded mlp.", show_default=False)
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            help="Also answer without a part of the memory: label=CLASS or task=NAME. Several with the same word mean "
            "any of them; label and task together mean what meets both.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Figure to write (.png, .svg, .pdf), with pictures of the memory."),
    ] = None,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
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
