from __future__ import annotations

import re
from pathlib import Path

import pytest

from idwbench.results.tables import metadata

PAGE = (Path(__file__).parents[2] / "docs" / "database.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def filled(store, make_config, make_result, make_diverged):
    configs = [make_config(seed, method) for method in ("idw", "inv_dist") for seed in range(3)]
    store.register_sweep("moons", "", "", [*configs, make_config(9)])
    store.finish([*(make_result(config) for config in configs), make_diverged(make_config(9))])
    return store


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_every_query_of_the_page_answers(filled, query):
    with filled._database.read() as connection:
        assert connection.exec_driver_sql(query).all()


def test_every_table_and_column_is_documented():
    words = set(re.findall(r"`(\w+)`", PAGE))
    for table in metadata.sorted_tables:
        assert table.name in words
        assert {column.name for column in table.columns} <= words


def test_every_column_of_the_views_is_documented(store):
    words = set(re.findall(r"`(\w+)`", PAGE))
    for view in ("leaderboard", "runs_wide"):
        with store._database.read() as connection:
            assert set(connection.exec_driver_sql(f"SELECT * FROM {view}").keys()) <= words
