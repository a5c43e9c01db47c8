"""Tables in all formats: text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, get_args

import pandas

from idwbench.errors import ConfigError, did_you_mean
from idwbench.report.labels import setting_names
from idwbench.report.tables import Column, Table
from idwbench.report.text import render_text

__all__ = [
    "TABLE_FORMATS",
    "TABLE_SUFFIXES",
    "TableFormat",
    "escape_latex",
    "escape_markdown",
    "format_of",
    "html_notes",
    "html_rows",
    "html_table",
    "render",
]

TableFormat = Literal["rich", "markdown", "latex", "csv", "json"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)

TABLE_SUFFIXES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "rich",
}

# On GitHub an underscore within a word (`fc_relu`) needs no escape.
_MARKDOWN = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)")
# Characters that pdflatex or its fonts do not support, and the commands of mathematics that stand for them.
_SYMBOLS = {
    **{"±": r"\pm", "·": r"\cdot", "×": r"\times", "−": "-", "√": r"\surd", "∂": r"\partial", "‖": r"\|"},
    **{"α": r"\alpha", "ε": r"\varepsilon", "η": r"\eta", "π": r"\pi", "ρ": r"\rho", "σ": r"\sigma", "Σ": r"\Sigma"},
    **{"→": r"\to", "∞": r"\infty", "≤": r"\le", "≥": r"\ge", "≫": r"\gg"},
}
_LATEX = str.maketrans(
    {
        **{character: rf"\{character}" for character in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": r"--"},
        **{"[": "{[}", "*": "{*}"},  # at the start of a line they would be an argument of the preceding \\
        **{character: rf"\textsuperscript{{{word}}}" for character, word in zip("²ᵀ⁻ⁿ", "2T-n", strict=True)},
        **{character: f"${command}$" for character, command in _SYMBOLS.items()},
    }
)


def render(tables: Sequence[Table], table_format: str) -> str:
    """Return tables as text that ends with a newline; ``rich`` is 100 columns wide and without colour.

    Raises:
        ConfigError: `table_format` is not in `TABLE_FORMATS`.
    """
    if table_format not in _RENDERERS:
        hint = did_you_mean(table_format, TABLE_FORMATS)
        raise ConfigError(f"unknown format '{table_format}'", location=("format",), hint=hint)
    return _RENDERERS[table_format](tables)


def format_of(path: Path, given: str | None = None) -> str:
    """Return the format of a table: the one given, or that which the ending of a file's name stands for.

    Raises:
        ConfigError: it contradicts the one given, or stands for none; `location` is ``("output",)``.
    """
    if given is not None:
        suffixes = [suffix for suffix, kind in TABLE_SUFFIXES.items() if kind == given]
        if path.suffix.lower() in {*TABLE_SUFFIXES} - {*suffixes}:
            problem = f"{path.suffix} is not the suffix of the format {given}"
            raise ConfigError(problem, location=("output",), hint=f"expected {suffixes[0]}")
        return given
    if path.suffix.lower() in TABLE_SUFFIXES:
        return TABLE_SUFFIXES[path.suffix.lower()]
    problem = f"{f'the ending {path.suffix}' if path.suffix else 'a name without an ending'} does not name a format"
    raise ConfigError(problem, location=("output",), hint=f"of tables: {', '.join(TABLE_SUFFIXES)}")


def escape_markdown(text: str) -> str:
    """Return `text` on one line with Markdown's special characters escaped."""
    return _MARKDOWN.sub(lambda found: "\\" + found.group(), " ".join(text.split()))


def escape_latex(text: str) -> str:
    """Return `text` with LaTeX's special characters escaped."""
    return " ".join(text.split()).translate(_LATEX)


def _markdown(tables: Sequence[Table]) -> str:
    return "\n".join(map(_markdown_table, tables)) if tables else "No runs to report.\n"


def _markdown_table(table: Table) -> str:
    """Return a heading, an aligned table and its notes."""
    columns = [column for column in table.columns if "markdown" not in column.not_in] if table.groups else []
    lines = [f"### {escape_markdown(table.title)}", ""] if table.title else []
    padded = []
    for column in columns:
        texts = [escape_markdown(column.header), *_marked(column, escape_markdown, "**{}**")]
        width = 3 if column.share else max(3, *map(len, texts))
        texts.insert(1, "-" * (width - 1) + (":" if column.numeric else "-"))
        padded.append([text.rjust(width) if column.numeric else text.ljust(width) for text in texts])
    lines += [f"| {' | '.join(line)} |" for line in zip(*padded, strict=True)]
    notes = [f"- {escape_markdown(note)}" for note in (table.caption if columns else "", *table.notes) if note]
    return "\n".join([*lines, *([""] if columns else []), *notes, ""])


def _marked(column: Column, escape: Callable[[str], str], best: str) -> list[str]:
    marks = zip_longest(map(escape, column.texts), column.best)
    return [best.format(text) if is_best else text for text, is_best in marks]


def _latex(tables: Sequence[Table]) -> str:
    """Return a ``table`` for pdflatex for each table, or a ``longtable`` where texts are long."""
    packages = "booktabs,longtable" if any(c.share for table in tables for c in table.columns) else "booktabs"
    found = "\n".join(map(_latex_table, tables)) if tables else "% no runs to report\n"
    return rf"% needs \usepackage{{{packages}}}" + "\n" + found


def _latex_table(table: Table) -> str:
    if not table.groups:
        return "\n".join(f"% {escape_latex(text)}" for text in (table.title, *table.notes)) + "\n"
    columns = [column for column in table.columns if "latex" not in column.not_in]
    kinds = (rf"p{{{f'{c.share:g}'[1:]}\linewidth}}" if c.share else "r" if c.numeric else "l" for c in columns)
    layout = f"@{{}}{''.join(kinds)}@{{}}"
    head = f"    {' & '.join(escape_latex(column.header) for column in columns)} \\\\"
    rows = zip(*(_marked(column, escape_latex, r"\textbf{{{}}}") for column in columns), strict=True)
    body = []
    for place, (group, row) in enumerate(zip(table.groups, rows, strict=True)):
        if place and group != table.groups[place - 1]:
            body.append(r"    \addlinespace")
        body.append(f"    {' & '.join(row)} \\\\")
    notes = [escape_latex(note) for note in table.notes]
    if any(column.share for column in columns):
        begin, end = [r"{\footnotesize", rf"  \begin{{longtable}}{{{layout}}}"], [r"  \end{longtable}"]
        end += [*(rf"  \par\noindent {note}" for note in notes), "}"]
        rule = [r"    \midrule", r"    \endhead"]
    else:
        caption = escape_latex(f"{table.title}. {table.caption}")
        begin = [r"\begin{table}", r"  \centering", rf"  \caption{{{caption}}}", rf"  \begin{{tabular}}{{{layout}}}"]
        end = [r"  \end{tabular}", *(rf"  \par\smallskip\footnotesize {note}" for note in notes), r"\end{table}"]
        rule = [r"    \midrule"]
    return "\n".join([*begin, r"    \toprule", head, *rule, *body, r"    \bottomrule", *end, ""])


def html_table(shown: Table) -> str:
    """Return a heading, a table and its notes as HTML."""
    columns = [column for column in shown.columns if "markdown" not in column.not_in] if shown.groups else []
    title = f"<h4>{escape(shown.title)}</h4>" if shown.title else ""
    rows = zip(*(_marked(column, escape, "<b>{}</b>") for column in columns), strict=True)
    body = html_rows([column.header for column in columns], rows, escaped=True)
    return title + body + html_notes([shown.caption if columns else "", *shown.notes])


def html_rows(header: Sequence[str], rows: Iterable[Sequence[object]], *, escaped: bool = False) -> str:
    """Return a table as HTML; cells that are `escaped` are HTML already."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = ""
    for row in rows:
        cells = (str(cell) if escaped else escape(str(cell)) for cell in row)
        body += "<tr>" + "".join(f'<td style="white-space: nowrap">{cell}</td>' for cell in cells) + "</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_notes(notes: Iterable[str]) -> str:
    """Return a small paragraph for each note that is not empty."""
    return "".join(f"<p><small>{escape(note)}</small></p>" for note in notes if note)


def _json(tables: Sequence[Table]) -> str:
    """Return the records as a JSON list, without NaN; each has all names."""
    records = [record for table in tables for record in table.records()]
    names = setting_names(records)
    full = [{name: record.get(name) for name in names} for record in records]
    return json.dumps(full, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(tables: Sequence[Table]) -> str:
    """Return the records with a column for each name, and each parameter; what is None or missing is empty."""
    records = [table.flat(record) for table in tables for record in table.records()]
    parameters = dict.fromkeys(name for record in records for name in record.get("parameters", ()))
    records = [_with_parameters(record, parameters) for record in records]
    fields = [{name: _field(value) for name, value in record.items()} for record in records]
    table = pandas.DataFrame(fields, columns=setting_names(fields), dtype=object)
    return str(table.to_csv(index=False, lineterminator="\n"))


def _with_parameters(record: Mapping[str, Any], parameters: Iterable[str]) -> dict[str, Any]:
    """Return a record with all parameters in the place of its own."""
    fields: dict[str, Any] = {}
    for name, value in record.items():
        is_one = name != "parameters"
        fields |= {name: value} if is_one else {one: value.get(one) for one in parameters if one not in record}
    return fields


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(_field, value))
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(value)


_RENDERERS: dict[str, Callable[[Sequence[Table]], str]] = {
    "rich": render_text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}
