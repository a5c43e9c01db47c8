"""Numbers in pages are those of the published tables and claims; baselines are what a report says of the sweeps."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from idwbench import Results, run_sweep
from idwbench.report.labels import plain_value
from idwbench.report.summaries import by_dataset, summarise
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.sweep.spec import plan, read_sweep

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("headlines", ROOT / "docs/headlines.py")
headlines = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(headlines)
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
PAGES = {name: page for name, page in PAGES.items() if headlines.NUMBER.search(page)}
PAGE = (ROOT / "docs/baselines.md").read_text(encoding="utf-8")
PUBLISHED = ROOT / "results/published/baselines"
SWEEPS = ("baselines", "baselines_regression", "baselines_mnist")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_published_numbers_and_no_line_begins_with_a_mark_which_would_end_a_paragraph(page):
    edited = headlines.NUMBER.sub(r"<!--\g<name>-->9.99<!--/-->", PAGES[page])
    assert headlines.written(edited) == PAGES[page] != edited
    assert not [line for line in PAGES[page].splitlines() if line.lstrip().startswith("<!--")]


def test_every_number_that_is_declared_stands_in_a_page():
    shown = {match["name"] for page in PAGES.values() for match in headlines.NUMBER.finditer(page)}
    assert shown == {*headlines.sources()}


def test_a_row_that_is_not_unique_is_refused():
    with pytest.raises(LookupError, match="values of test_mean for"):
        headlines.tabled("family/table_kernel_regression_diabetes", "test_mean", {"method": "idw"})


# Numbers without a mark

# Pages whose numbers with a spread are of no published table: lines that commands print, times, and sweeps without one.
UNPUBLISHED = {"baselines", "hash_table", "reports", "sweeps", "tutorial"}
SPREADS = {
    path.stem: found
    for path in sorted((ROOT / "docs").glob("*.md"))
    if (found := re.findall(r"([\d,]+\.?\d*) ± ([\d,]+\.?\d*)", path.read_text(encoding="utf-8")))
}


@pytest.fixture(scope="module")
def published_spreads():
    """Means and standard deviations (n, 2) of all published tables, as they are and in percent."""
    pairs = [np.empty((0, 2))]
    for path in (ROOT / "results/published").rglob("*.csv"):
        table = pd.read_csv(path)
        names = [name.removesuffix("_mean") for name in table if name.endswith("_mean")]
        known = [(f"{name}_mean", f"{name}_std") for name in names if f"{name}_std" in table]
        pairs += [table[[*columns]].to_numpy(np.float64) for columns in known]
    return np.concatenate([factor * pair for pair in pairs for factor in (1, 100)])


@pytest.mark.parametrize("page", sorted(SPREADS.keys() - UNPUBLISHED))
def test_every_mean_with_its_spread_is_that_of_a_published_table(page, published_spreads):
    def is_published(mean, std):
        numbers = [float(text.replace(",", "")) for text in (mean, std)]
        half = [0.5001 * 10.0 ** -len(text.partition(".")[2]) for text in (mean, std)]
        return (np.abs(published_spreads - numbers) <= half).all(1).any()

    assert [" ± ".join(pair) for pair in SPREADS[page] if not is_published(*pair)] == []


def test_the_page_on_prototypes_has_the_published_verdicts():
    page = (ROOT / "docs/prototypes.md").read_text(encoding="utf-8")
    judged = json.loads((ROOT / "results/published/prototypes/claims.json").read_text(encoding="utf-8"))
    shown = {row[0]: row[2] for row in rows_of(page.split("## The claims")[1].split("##")[0])[1:]}
    assert shown == {str(one["number"]): one["verdict"] for one in judged}


# Baselines


def rows_of(text):
    """The cells of all lines of tables but their rules."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.match(r"^\|[ -]*-[-:| ]*\|$", line)]
    return [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines]


def published(name):
    return rows_of((PUBLISHED / f"table_{name}.md").read_text(encoding="utf-8"))


def records(name):
    return pd.read_csv(PUBLISHED / f"table_{name}.csv")


@pytest.mark.parametrize("name", SWEEPS)
def test_the_page_includes_the_published_tables_of_the_runs_of_the_shipped_sweep(name):
    assert f"```{{include}} ../results/published/baselines/table_{name}.md\n" in PAGE
    runs = plan(read_sweep(ROOT / f"sweeps/{name}.yaml"))
    table = records(name)
    assert {run.dataset.name for run in runs} == {*table.dataset}
    assert {(run.model.kind, run.model.method) for run in runs} == {*zip(table.model, table.method, strict=True)}
    assert table.n.sum() == len(runs)


def test_the_neighbours_and_machines_of_small_sets_have_the_published_accuracies(tmp_path):
    text = (ROOT / "sweeps/baselines.yaml").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if "{name: " not in line or "wine" in line or "iris" in line]
    kept = [line for line in kept if "{method" not in line and "kind: baseline" not in line]
    text = "\n".join(kept).replace("nca_knn, svc, logistic_regression, random_forest, hist_gradient_boosting", "svc")
    (tmp_path / "baselines.yaml").write_text(text)
    run_sweep(tmp_path / "baselines.yaml", tmp_path / "results.db", jobs=1)
    runs = Results(tmp_path / "results.db", read_only=True).find_runs(sweep="baselines")
    (table,) = by_dataset(summarise(runs))
    cells = {column.name: column.texts for column in table.columns}
    names = ("method", "setting", "iris", "wine")
    header, *rows = published("baselines")[: 1 + len(records("baselines")) // 10]
    places = [0, 1, header.index("iris"), header.index("wine")]
    assert {*zip(*(cells[name] for name in names), strict=True)} <= {tuple(row[n] for n in places) for row in rows}


def test_the_page_lists_every_method_with_its_parameters_and_defaults():
    rows = {row[0].strip("`"): row for row in rows_of(PAGE.split("## Ten data sets")[0])[1:]}
    assert [*rows] == [*SCIKIT_LEARN_METHODS]
    for name, method in SCIKIT_LEARN_METHODS.items():
        declared = {p.name: plain_value(p.default) for p in method.parameters}
        assert dict(re.findall(r"`(\w+)` \(([^)]*)\)", rows[name][3])) == declared
        words = [{"classification": "classes", "regression": "regression"}[task] for task in method.estimators]
        assert rows[name][2] == ("both" if len(words) == 2 else words[0])
        assert rows[name][4] == ("no" if method.is_deterministic else "yes")
