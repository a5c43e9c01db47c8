"""`idwbench report --paper`, `--family` and `--dual`: all figures, tables and claims in one folder."""

from __future__ import annotations

from pathlib import Path

from idwbench.cli.echo import echo

__all__ = ["report_publication"]


def report_publication(
    name: str,
    db: str,
    folder: Path,
    figure_format: str,
    data_dir: Path | None,
    *,
    measured: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write the files, print their names, and on stderr what is missing and the sweeps that would fill the gaps.

    With `measured` the quality of prototypes is first stored for runs that lack it.
    """
    from idwbench.cli.interruption import interruptible
    from idwbench.cli.quality import advise, measure, opened
    from idwbench.publications.folder import write_publication
    from idwbench.publications.paper import finished_runs, paper_runs
    from idwbench.training.threads import limited_threads

    results = opened(db, measured)
    with limited_threads(1):
        runs = finished_runs(results)
        if measured and measure(results, paper_runs(runs), data_dir):
            runs = finished_runs(results)
        with interruptible(lambda: f"{folder} is not complete; the same command with --force makes all of it"):
            written = write_publication(
                name,
                results,
                folder,
                figure_format=figure_format,
                data_dir=data_dir,
                overwrite=force,
                on_item=lambda item: echo(item, err=True),
                runs=runs,
            )
    if as_json:
        import dataclasses
        import json

        content = {"files": list(map(str, written.files)), "gaps": [dataclasses.asdict(gap) for gap in written.gaps]}
        echo(json.dumps(content, indent=1))
        return
    for path in written.files:
        echo(str(path))
    for gap in written.gaps:
        echo(f"missing: {gap.name}: {gap.problem}", err=True)
    for file in dict.fromkeys(gap.sweep_file for gap in written.gaps if gap.sweep_file is not None):
        echo(f"to fill gaps: idwbench sweep {file}", err=True)
    if name == "paper":
        advise(paper_runs(runs))
