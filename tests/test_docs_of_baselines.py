"""The page of baselines and the published tables that it includes, which are what a report formats."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from idwbench.report.by_dataset import by_dataset
from idwbench.report.labels import plain_value, value_label
from idwbench.report.summaries import summarise
from idwbench.results.store import Results
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.spec import plan, read_sweep

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/baselines.md").read_text(encoding="utf-8")
PUBLISHED = ROOT / "results/published/baselines"
SWEEPS = ("baselines", "baselines_regression", "baselines_mnist")
METRICS = {"baselines": "accuracy", "baselines_regression": "rmse"}


def rows_of(text: str) -> list[list[str]]:
    """The cells of all lines of tables but their rules."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.match(r"^\|[ -]*-[-:| ]*\|$", line)]
    return [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines]


def published(name: str) -> list[list[str]]:
    return rows_of((PUBLISHED / f"table_{name}.md").read_text(encoding="utf-8"))


def records(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / f"table_{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", METRICS)
def test_the_published_cells_are_what_a_report_formats_from_the_published_numbers(name):
    by_data: dict[str, list[dict[str, str]]] = defaultdict(list)
    for record in records(name):
        by_data[record["dataset"]].append(record)
    cells: dict[str, list[str]] = {}
    header: list[str] = []
    for row in published(name):
        if row[0] == "method":
            header = row
        else:
            for column, cell in zip(header, row, strict=True):
                cells.setdefault(column, []).append(cell)
    tables = len(cells["method"]) // len(next(iter(by_data.values())))
    sign = -1 if METRICS[name] == "accuracy" else 1
    means = []
    for dataset, found in by_data.items():
        mean, std = ([float(one[f"test_{field}"]) for one in found] for field in ("mean", "std"))
        assert cells[dataset] == [value_label(METRICS[name], *one) for one in zip(mean, std, strict=True)]
        assert [one["method"] for one in found] * tables == cells["method"]
        means.append([sign * round(value, 12) for value in mean])
    ranks = np.mean([rankdata(row) for row in means], axis=0)
    assert cells["mean rank"] == [f"{rank:.1f}" for rank in ranks]


def test_the_published_accuracies_of_mnist_are_those_of_the_file():
    for row, record in zip(published("baselines_mnist")[1:], records("baselines_mnist"), strict=True):
        std = float(record["test_std"]) if record["test_std"] else None
        assert row[0] == record["method"]
        assert row[4] == value_label("accuracy", float(record["test_mean"]), std)


@pytest.mark.parametrize("name", SWEEPS)
def test_the_published_runs_are_those_of_the_shipped_sweep(name):
    runs = plan(read_sweep(ROOT / f"sweeps/{name}.yaml"))
    assert {run.dataset.name for run in runs} == {record["dataset"] for record in records(name)}
    assert {(run.model.kind, run.model.method) for run in runs} == {(r["model"], r["method"]) for r in records(name)}
    assert sum(int(record["n"]) for record in records(name)) == len(runs)


def test_the_neighbours_and_machines_of_small_sets_have_the_published_accuracies(tmp_path):
    text = (ROOT / "sweeps/baselines.yaml").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if "{name: " not in line or "wine" in line or "iris" in line]
    kept = [line for line in kept if "{method" not in line and "kind: baseline" not in line]
    path = tmp_path / "baselines.yaml"
    path.write_text(
        "\n".join(kept).replace("nca_knn, svc, logistic_regression, random_forest, hist_gradient_boosting", "svc")
    )
    run_sweep(path, tmp_path / "results.db", jobs=1)
    runs = Results(tmp_path / "results.db", read_only=True).find_runs(sweep="baselines")
    (table,) = by_dataset(summarise(runs))
    found = {column.name: [cell.text for cell in column.cells] for column in table.columns}
    header, *rows = published("baselines")[: 1 + len(records("baselines")) // 10]
    for method, setting, iris, wine in zip(*(found[n] for n in ("method", "setting", "iris", "wine")), strict=True):
        (row,) = [row for row in rows if row[:2] == [method, setting]]
        assert [row[header.index("iris")], row[header.index("wine")]] == [iris, wine]


def test_the_page_lists_every_method_with_its_parameters_and_defaults():
    rows = {row[0].strip("`"): row for row in rows_of(PAGE.split("## Ten data sets")[0])[1:]}
    assert [*rows] == [*SCIKIT_LEARN_METHODS]
    for name, method in SCIKIT_LEARN_METHODS.items():
        declared = {p.name: plain_value(p.default) for p in method.parameters}
        assert dict(re.findall(r"`(\w+)` \(([^)]*)\)", rows[name][3])) == declared
        words = [{"classification": "classes", "regression": "regression"}[task] for task in method.estimators]
        assert rows[name][2] == ("both" if len(words) == 2 else words[0])
        assert rows[name][4] == ("no" if method.is_deterministic else "yes")
