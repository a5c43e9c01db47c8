r"""Tables as LaTeX: one ``table`` with booktabs rules for each, for pdflatex."""

from __future__ import annotations

from collections.abc import Sequence

from idwbench.report.tables import Cell, Table

__all__ = ["escape_latex", "render_latex"]

# The second half are characters that pdflatex or its fonts do not support.
_REPLACEMENTS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "[": "{[}",  # at the start of a line a bracket or a star would be an argument of the preceding \\
        "*": "{*}",
        "±": r"$\pm$",
        "·": r"$\cdot$",
        "×": r"$\times$",
        "−": r"$-$",
        "–": r"--",
        "√": r"$\surd$",
        "ε": r"$\varepsilon$",
        "η": r"$\eta$",
        "α": r"$\alpha$",
        "σ": r"$\sigma$",
        "²": r"\textsuperscript{2}",
        "ᵀ": r"\textsuperscript{T}",
        "⁻": r"\textsuperscript{-}",
        "ⁿ": r"\textsuperscript{n}",
        "π": r"$\pi$",
        "∂": r"$\partial$",
        "‖": r"$\|$",
        "→": r"$\to$",
        "∞": r"$\infty$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "≫": r"$\gg$",
        "ρ": r"$\rho$",
        "Σ": r"$\Sigma$",
    }
)


def render_latex(tables: Sequence[Table]) -> str:
    r"""Return a ``table`` with notes for each table; needs ``\usepackage{booktabs}``."""
    header = r"% needs \usepackage{booktabs}" + "\n"
    if not tables:
        return header + "% no runs to report\n"
    return header + "\n".join(_table(table) for table in tables)


def escape_latex(text: str) -> str:
    """Return `text` with LaTeX's special characters escaped."""
    return " ".join(text.split()).translate(_REPLACEMENTS)


def _table(table: Table) -> str:
    if not table.groups:
        return "\n".join(f"% {escape_latex(text)}" for text in (table.title, *table.notes)) + "\n"
    columns = table.columns
    headers = " & ".join(escape_latex(column.header) for column in columns)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(f'{table.title}. {table.caption()}')}}}",
        rf"  \begin{{tabular}}{{@{{}}{''.join('r' if column.numeric else 'l' for column in columns)}@{{}}}}",
        r"    \toprule",
        rf"    {headers} \\",
        r"    \midrule",
    ]
    for place, group in enumerate(table.groups):
        if place and group != table.groups[place - 1]:
            lines.append(r"    \addlinespace")
        lines.append(f"    {' & '.join(_cell(column.cells[place]) for column in columns)} \\\\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par\smallskip\footnotesize {escape_latex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _cell(cell: Cell) -> str:
    text = escape_latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.best else text
