"""The table of claims in all formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from idwbench.claims.table import HEADERS, cells, notes, record
from idwbench.claims.verdicts import Judgement
from idwbench.report.exports import csv_text, json_text
from idwbench.report.formats import find_renderer, plain_text
from idwbench.report.latex import escape_latex
from idwbench.report.markdown import escape_markdown

if TYPE_CHECKING:
    from idwbench.claims.terminal import TerminalClaims

__all__ = ["render_claims", "rules_table", "terminal_claims"]

# Widths of the columns of text in LaTeX, in parts of the line.
_LATEX_COLUMNS = r"@{}rp{.16\linewidth}lp{.17\linewidth}rp{.13\linewidth}p{.07\linewidth}p{.2\linewidth}@{}"


def render_claims(judgements: Sequence[Judgement], table_format: str) -> str:
    """Return the table as text that ends with a newline; ``rich`` is 100 columns wide and without colour.

    Raises:
        ConfigError: `table_format` is not in `TABLE_FORMATS`.
    """
    return find_renderer(_RENDERERS, table_format)(judgements)


def terminal_claims(judgements: Sequence[Judgement]) -> TerminalClaims:
    """Return the table for Rich."""
    from idwbench.claims.terminal import TerminalClaims  # importing Rich is slow

    return TerminalClaims(judgements)


def rules_table() -> str:
    """Return the rules of all claims as a Markdown table for the documentation."""
    from idwbench.claims.registry import CLAIMS

    head = ["| # | claim | where | holds if | sweep |", "|--:|---|---|---|---|"]
    rows = []
    for claim in CLAIMS:
        sweeps = ", ".join(f"`{name}`" for name in claim.sweeps) or "none"
        texts = (escape_markdown(text) for text in (claim.statement, claim.source, claim.test))
        rows.append(f"| {claim.number} | {' | '.join(texts)} | {sweeps} |")
    return "\n".join([*head, *rows]) + "\n"


def _markdown(judgements: Sequence[Judgement]) -> str:
    lines = [HEADERS, tuple("---" for _ in HEADERS)]
    lines += [tuple(escape_markdown(cell) for cell in cells(judgement)) for judgement in judgements]
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([*table, "", *(f"- {escape_markdown(note)}" for note in notes(judgements)), ""])


def _latex(judgements: Sequence[Judgement]) -> str:
    # The sweeps stand in the notes.
    rows = [[escape_latex(cell) for cell in line[:-1]] for line in (HEADERS, *map(cells, judgements))]
    head, *body = (f"    {' & '.join(row)} \\\\" for row in rows)
    lines = [
        r"% needs \usepackage{booktabs,longtable}",
        r"{\footnotesize",
        rf"  \begin{{longtable}}{{{_LATEX_COLUMNS}}}",
        r"    \toprule",
        head,
        r"    \midrule",
        r"    \endhead",
        *body,
        r"    \bottomrule",
        r"  \end{longtable}",
        *(rf"  \par\noindent {escape_latex(note)}" for note in notes(judgements)),
        "}",
    ]
    return "\n".join([*lines, ""])


def _csv(judgements: Sequence[Judgement]) -> str:
    rows = []
    for judgement in judgements:
        row = record(judgement)
        del row["findings"]
        row["interval_low"], row["interval_high"] = row.pop("interval") or (None, None)
        row["sweeps"], row["remarks"] = " ".join(row["sweeps"]), " ".join(row["remarks"])
        rows.append(row)
    return csv_text(list(rows[0]), rows) if rows else ""


_RENDERERS: dict[str, Callable[[Sequence[Judgement]], str]] = {
    "rich": lambda judgements: plain_text(terminal_claims(judgements)),
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": lambda judgements: json_text(list(map(record, judgements))),
}
