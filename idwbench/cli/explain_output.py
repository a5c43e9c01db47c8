"""What `idwbench explain` prints, of an input and of a prompt."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.cli.echo import echo
from idwbench.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from idwbench.explanations.explanation import Answer, Explanation, LayerAttention, MaskEffect
    from idwbench.explanations.passages import ExplainedPrompt, PassageLayer

__all__ = ["print_explanation", "print_passages"]

_NOUNS = {"prototypes": "prototypes", "training data": "training samples", "history of training": "slots"}
_MOST_NUMBERS = 6


def print_explanation(explained: Explanation, output: Path | None, as_json: bool) -> None:
    """Print an explanation; `output` is the figure that was written."""
    _print_warnings(explained.warnings)
    if as_json:
        echo(json.dumps({**explained.facts(), "figure": str(output) if output else None}, ensure_ascii=False))
        return
    console = _console()
    query = explained.query
    known = explained.class_name(query.label) or ("" if query.target is None else _numbers(query.target.tolist()))
    echo(explained.model)
    echo(f"input {query.text}{f', target {known}' if known else ''}")
    echo(f"answer {_answer(explained, explained.answer)}")
    for layer in explained.layers:
        echo(f"\n{_title(explained, layer)}")
        console.print(_items(explained, layer))
    if explained.class_names:
        echo(f"\ntotal {explained.weight_name} by class (* the largest)")
        console.print(_classes(explained))
    if explained.effect is not None:
        _print_effect(explained, explained.effect)
    if output is not None:
        echo(f"figure {output}")


def _items(explained: Explanation, layer: LayerAttention) -> Table:
    """Return the table of the largest weights of a layer; columns without content are left out."""
    is_history = explained.memory == "history of training"
    is_regression = not explained.class_names
    cells = [
        {
            "source": item.source,
            "class": explained.class_name(item.label),
            "task": item.task,
            "visits": f"{item.visits}" if is_history else "",
            "step": "" if item.step is None else f"{item.step:,}",
            explained.weight_name: f"{item.weight:.4g}",
            "contribution": "" if item.contribution is None else f"{item.contribution:.4g}",
            "value": _numbers(item.value.tolist()) if is_regression and item.value is not None else "",
        }
        for item in layer.items
    ]
    columns = {name: [row[name] for row in cells] for name in (cells[0] if cells else ())}
    return _table({name: column for name, column in columns.items() if any(column)})


def _title(explained: Explanation, layer: LayerAttention) -> str:
    n, size = len(layer.items), f"{layer.size:,} {_NOUNS[explained.memory]}"
    if explained.memory == "history of training":
        return f"{layer.name}: the {n} training samples with the largest attention, of {size}"
    return f"{layer.name}: the {n} largest weights of {size}"


def _classes(explained: Explanation) -> Table:
    """Return the table of total weights by class, with a column for each layer, whose largest number has a star."""
    columns: dict[str, list[str]] = {"class": list(explained.class_names)}
    for layer in explained.layers:
        best = int(layer.totals.argmax())
        columns[layer.name] = [f"{total:.4g}{' *' if c == best else '  '}" for c, total in enumerate(layer.totals)]
    return _table(columns)


def _table(columns: Mapping[str, Sequence[str]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="left" if name in ("source", "class", "task") else "right")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _print_effect(explained: Explanation, effect: MaskEffect) -> None:
    removed = f"{effect.removed:,} of {effect.size:,} {_NOUNS[explained.memory]}"
    before, after = (_answer(explained, answer) for answer in (explained.answer, effect.answer))
    echo(f"without {', '.join(effect.conditions)} ({removed}): {before} -> {after}")
    for change in effect.accuracy:
        echo(f"{change.name}: accuracy {100 * change.before:.2f} -> {100 * change.after:.2f} % ({change.n:,} inputs)")


def _answer(explained: Explanation, answer: Answer) -> str:
    if answer.probabilities is None or answer.label is None:
        return _numbers(answer.outputs.tolist())
    return f"{explained.class_name(answer.label)} (probability {answer.probabilities[answer.label]:.4f})"


def _numbers(numbers: Sequence[float]) -> str:
    more = ", ..." if len(numbers) > _MOST_NUMBERS else ""
    return ", ".join(f"{number:.4g}" for number in numbers[:_MOST_NUMBERS]) + more


def _print_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        echo(f"warning: {warning}", err=True)


def _console() -> Console:
    from rich.console import Console

    # A pipe has no width.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def print_passages(explained: ExplainedPrompt, as_json: bool) -> None:
    """Print the passages behind the next token of a prompt."""
    _print_warnings(explained.warnings)
    if as_json:
        echo(json.dumps(explained.facts(), ensure_ascii=False))
        return
    console = _console()
    echo(explained.model)
    echo(f"prompt {_shown(explained.tokenizer.join(explained.prompt))}")
    likely = (f"{_shown(token)} {100 * probability:.1f} %" for token, probability in explained.next_tokens[:5])
    echo(f"next {', '.join(likely)}")
    for layer in explained.layers:
        title = f"{len(layer.passages)} passages of the {layer.hits:,} slots with the largest attention"
        echo(f"\n{layer.name}: {title}, of {layer.slots:,}")
        console.print(_passages(explained, layer))


def _passages(explained: ExplainedPrompt, layer: PassageLayer) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("attention", "hits", "step", *(("contribution",) if _has_contributions(layer) else ())):
        table.add_column(name, justify="right")
    table.add_column("passage", overflow="fold")
    for passage in layer.passages:
        cells = [f"{passage.attention:.4g}", f"{passage.hits:,}", f"{passage.step:,}"]
        if passage.contribution is not None:
            cells.append(f"{passage.contribution:+.4g}")
        table.add_row(*cells, Text(printable(explained.text(passage))))
    return table


def _has_contributions(layer: PassageLayer) -> bool:
    return any(passage.contribution is not None for passage in layer.passages)


def _shown(text: str) -> str:
    """Return a text between quotation marks, with line ends as ⏎."""
    from idwbench.explanations.passages import LINE_END

    return f"'{text.replace(chr(10), LINE_END)}'"
