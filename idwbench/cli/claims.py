"""`idwbench report --claims`: the verdicts on the paper's claims."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

__all__ = ["report_claims"]


def report_claims(
    db: str, chosen: str, output: Path | None, data_dir: Path | None, *, measured: bool, force: bool
) -> None:
    """Print or write the verdicts in a format of tables.

    With `measured` the quality of prototypes is first stored for runs that lack it.
    """
    from idwbench.cli.quality import advise, measure, opened
    from idwbench.files import check_output, write_file

    results = opened(db, measured)
    if output is not None:
        check_output(output, overwrite=force)

    from idwbench.claims.formats import render_claims
    from idwbench.claims.verdicts import judge_claims
    from idwbench.paper.runs import paper_runs
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        if measured:
            measure(results, paper_runs(results), data_dir)
        judgements = judge_claims(results)
    if output is not None:
        write_file(output, render_claims(judgements, chosen).encode(), overwrite=force)
        typer.echo(str(output))
    elif chosen == "rich":
        from rich.console import Console

        from idwbench.claims.terminal import TerminalClaims

        # A pipe has no width.
        Console(highlight=False, width=None if sys.stdout.isatty() else 100).print(TerminalClaims(judgements))
    else:
        typer.echo(render_claims(judgements, chosen), nl=False)
    advise(paper_runs(results))
