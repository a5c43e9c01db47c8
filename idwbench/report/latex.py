r"""Reports as LaTeX: one ``table`` with booktabs rules for each section, for pdflatex."""

from __future__ import annotations

from idwbench.report.columns import Cell, caption, section_columns
from idwbench.report.summaries import Report, Section

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
    }
)


def render_latex(report: Report) -> str:
    r"""Return a ``table`` with notes for each section; needs ``\usepackage{booktabs}``."""
    header = r"% needs \usepackage{booktabs}" + "\n"
    if not report.sections:
        return header + "% no runs to report\n"
    return header + "\n".join(_section(section) for section in report.sections)


def escape_latex(text: str) -> str:
    """Return `text` with LaTeX's special characters escaped."""
    return " ".join(text.split()).translate(_REPLACEMENTS)


def _section(section: Section) -> str:
    if not section.rows:
        return "\n".join(f"% {escape_latex(text)}" for text in (section.title, *section.notes)) + "\n"
    columns = section_columns(section)
    headers = " & ".join(escape_latex(column.header) for column in columns)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(f'{section.title}. {caption(section)}')}}}",
        rf"  \begin{{tabular}}{{@{{}}{''.join('r' if column.numeric else 'l' for column in columns)}@{{}}}}",
        r"    \toprule",
        rf"    {headers} \\",
        r"    \midrule",
    ]
    for place, row in enumerate(section.rows):
        if place and row.model.prototypes != section.rows[place - 1].model.prototypes:
            lines.append(r"    \addlinespace")
        lines.append(f"    {' & '.join(_cell(column.cell(row)) for column in columns)} \\\\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par\smallskip\footnotesize {escape_latex(note)}" for note in section.notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _cell(cell: Cell) -> str:
    text = escape_latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.best else text
