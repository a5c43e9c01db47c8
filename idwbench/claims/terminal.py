"""The table of claims for the terminal: a Rich table whose text wraps within the available width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from idwbench.claims.table import HEADERS, cells, notes
from idwbench.claims.verdicts import Judgement
from idwbench.errors import printable

__all__ = ["TerminalClaims"]

# The test stands in the documentation, the reason below the table, the sweep in the notes.
_COLUMNS = ("#", "claim", "where", "n", "effect", "verdict")
_STYLES = {"holds": "green", "does not hold": "red", "not enough runs": "dim"}
_RATIOS = {"claim": 4, "effect": 3}


class TerminalClaims:
    """A Rich renderable: ``Console().print(TerminalClaims(judgements))``."""

    def __init__(self, judgements: Sequence[Judgement]) -> None:
        self.judgements = judgements

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, header_style="bold", expand=True)
        for name in _COLUMNS:
            table.add_column(name, justify="right" if name in ("#", "n") else "left", ratio=_RATIOS.get(name))
        reasons = []
        for judgement in self.judgements:
            row = dict(zip(HEADERS, cells(judgement), strict=True))
            style = _STYLES[judgement.verdict]
            table.add_row(*(Text(printable(row[name]), style=style if name == "verdict" else "") for name in _COLUMNS))
            reasons += [f"{row['#']}: {row['because']}"] if row["because"] else []
        yield table
        yield from (Padding(Text(printable(line)), (0, 0, 0, 1)) for line in reasons)
        yield from (Padding(Text(printable(line), style="dim"), (0, 0, 0, 1)) for line in notes(self.judgements))
