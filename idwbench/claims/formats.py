"""The table of claims in all formats."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence

from idwbench.claims.table import HEADERS, cells, notes, record
from idwbench.claims.verdicts import Judgement
from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.formats import TABLE_FORMATS
from idwbench.report.latex import escape_latex
from idwbench.report.markdown import escape_markdown

__all__ = ["render_claims", "rules_table"]

# Widths of the columns of text in LaTeX, in parts of the line.
_LATEX_COLUMNS = r"@{}rp{.16\linewidth}lp{.17\linewidth}rp{.13\linewidth}p{.07\linewidth}p{.2\linewidth}@{}"


def render_claims(judgements: Sequence[Judgement], table_format: str) -> str:
    """Return the table as text that ends with a newline; ``rich`` is 100 columns wide and without colour.

    Raises:
        ConfigError: `table_format` is not in `TABLE_FORMATS`.
    """
    if table_format == "rich":
        from idwbench.claims.terminal import render_plain  # importing Rich is slow

        return render_plain(judgements)
    if table_format not in _RENDERERS:
        hint = did_you_mean(table_format, TABLE_FORMATS)
        raise ConfigError(f"unknown format '{table_format}'", location=("format",), hint=hint)
    return _RENDERERS[table_format](judgements)


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
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header: tuple[str, ...] = ()
    for judgement in judgements:
        flat = record(judgement)
        del flat["findings"]
        flat["interval_low"], flat["interval_high"] = flat.pop("interval") or (None, None)
        flat["sweeps"], flat["remarks"] = " ".join(flat["sweeps"]), " ".join(flat["remarks"])
        if not header:
            writer.writerow(header := tuple(flat))
        writer.writerow(["" if value is None else value for value in flat.values()])
    return stream.getvalue()


def _json(judgements: Sequence[Judgement]) -> str:
    return (
        json.dumps([record(judgement) for judgement in judgements], indent=2, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


_RENDERERS: dict[str, Callable[[Sequence[Judgement]], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}
