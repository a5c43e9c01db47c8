"""`idwbench report --claims`: the verdicts on the paper's claims."""

from __future__ import annotations

from pathlib import Path

__all__ = ["report_claims"]


def report_claims(
    db: str, chosen: str, output: Path | None, data_dir: Path | None, *, measured: bool, force: bool
) -> None:
    """Print or write the verdicts in a format of tables.

    With `measured` the quality of prototypes is first stored for runs that lack it.
    """
    from idwbench.cli.quality import advise, measure, opened
    from idwbench.cli.tables import write_table
    from idwbench.files import check_output

    results = opened(db, measured)
    if output is not None:
        check_output(output, overwrite=force)

    from idwbench.claims.formats import render_claims, terminal_claims
    from idwbench.claims.verdicts import judge_claims
    from idwbench.publications.paper import finished_runs, paper_runs
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        runs = finished_runs(results)
        if measured and measure(results, paper_runs(runs), data_dir):
            runs = finished_runs(results)
        judgements = judge_claims(results, runs)
    write_table(judgements, render_claims, terminal_claims, chosen, output, force=force)
    advise(paper_runs(runs))
