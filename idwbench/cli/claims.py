"""`idwbench claims`: the verdicts on the claims of the papers."""

from __future__ import annotations

from idwbench.cli.options import (
    DEFAULT_DATABASE,
    Database,
    DataDir,
    Force,
    Json,
    Measure,
    Plugins,
    TableFormat,
    TableOutput,
    check_format,
    load_plugins,
)

__all__ = ["claims"]


def claims(
    format: TableFormat = None,
    output: TableOutput = None,
    measure: Measure = False,
    json: Json = False,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
) -> None:
    """Judge the claims of the papers by all runs with their data and protocol."""
    table_format = check_format(format, output, json)
    load_plugins(plugin)

    from idwbench.cli.output import write_tables
    from idwbench.cli.quality import advise, measured_runs, opened
    from idwbench.files import check_output

    results = opened(db, measure)
    if output is not None:
        check_output(output, overwrite=force)

    from idwbench.claims.table import claims_table
    from idwbench.claims.verdicts import judge_claims
    from idwbench.publications.paper import PAPER
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        runs = measured_runs(results, data_dir, measure)
        judgements = judge_claims(results, runs)
    write_tables([claims_table(judgements)], table_format, output, force=force)
    advise(PAPER.select(runs))
