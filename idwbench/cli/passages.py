"""What `idwbench explain` prints of a prompt."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from idwbench.cli.echo import echo
from idwbench.explanations.passage_texts import LINE_END
from idwbench.printing import printable

if TYPE_CHECKING:
    from rich.table import Table

    from idwbench.explanations.passage_texts import ExplainedPrompt, PassageLayer

__all__ = ["print_passages"]


def print_passages(explained: ExplainedPrompt, as_json: bool) -> None:
    """Print the passages behind the next token of a prompt."""
    for warning in explained.warnings:
        echo(f"warning: {warning}", err=True)
    if as_json:
        echo(json.dumps(explained.facts(), ensure_ascii=False))
        return
    from rich.console import Console

    # A pipe has no width.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    echo(explained.model)
    echo(f"prompt {_shown(explained.tokenizer.join(explained.prompt))}")
    likely = (f"{_shown(token)} {100 * probability:.1f} %" for token, probability in explained.next_tokens[:5])
    echo(f"next {', '.join(likely)}")
    for layer in explained.layers:
        title = f"{len(layer.passages)} passages of the {layer.hits:,} slots with the largest attention"
        echo(f"\n{layer.name}: {title}, of {layer.slots:,}")
        console.print(_table(explained, layer))


def _table(explained: ExplainedPrompt, layer: PassageLayer) -> Table:
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
    return f"'{text.replace(chr(10), LINE_END)}'"
