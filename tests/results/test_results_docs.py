from __future__ import annotations

import re
from pathlib import Path

from idwbench.results.tables import metadata

PAGE = (Path(__file__).parents[2] / "docs" / "database.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
WORDS = set(re.findall(r"`(\w+)`", PAGE))


def test_every_query_of_the_page_answers(store, make_config, make_result, make_diverged):
    configs = [make_config(seed, method) for method in ("idw", "inv_dist") for seed in range(3)]
    store.register_sweep("moons", "", "", [*configs, make_config(9)])
    store.finish([*(make_result(config) for config in configs), make_diverged(make_config(9))])
    for query in QUERIES:
        with store._database.read() as connection:
            assert connection.exec_driver_sql(query).all(), query


def test_every_table_and_column_is_documented(store):
    with store._database.read() as connection:
        views = {
            name: connection.exec_driver_sql(f"SELECT * FROM {name}").keys() for name in ("leaderboard", "runs_wide")
        }
    assert {column for columns in views.values() for column in columns} <= WORDS
    for table in metadata.sorted_tables:
        assert {table.name, *table.columns.keys()} <= WORDS
