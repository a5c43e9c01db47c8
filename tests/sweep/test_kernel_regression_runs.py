"""Sweeps with kernel regression: their files, results, tables and figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from idwbench.attention.kernels import KERNELS as all_kernels
from idwbench.errors import ConfigError
from idwbench.figures.stored import FIGURES, FORMULAS, stored_drawing
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.kinds.kernel_regression import KernelRegressionConfig
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.spec import plan, read_sweep

HEAD = """\
name: kernels
dataset: {name: two_moons, train_per_class: 10, test_per_class: 8, holdout_per_class: 10}
protocol: {epochs: 2}
seeds: 2
grid:
"""
KERNELS = "  - {kind: kernel_regression, kernel: [gaussian, boxcar], bandwidth: [0.1, loo]}\n"
SHEPARD = "  - {kind: kernel_regression, kernel: shepard, epsilon: [0, 0.1]}\n"
NETWORK = "  - {method: gaussian, prototypes: 2}\n"


@pytest.fixture
def write(tmp_path: Path):
    def write(grid: str) -> Path:
        path = tmp_path / "kernels.yaml"
        path.write_text(HEAD + grid)
        return path

    return write


@pytest.fixture
def results(write, tmp_path: Path) -> Results:
    db = tmp_path / "results.db"
    status = run_sweep(write(KERNELS + SHEPARD + NETWORK), db, engine="torch", jobs=1)
    assert (status.complete, status.total) == (8, 8)
    return Results(db)


def test_kernel_and_bandwidth_are_axes(write):
    runs = plan(read_sweep(write(KERNELS + SHEPARD)))
    assert [run.model.label for run in runs] == [
        "gaussian kernel · h=0.1",
        "boxcar kernel · h=0.1",
        "gaussian kernel · h=loo",
        "boxcar kernel · h=loo",
        "shepard kernel · p=2, ε=0",
        "shepard kernel · p=2, ε=0.1",
    ]
    for run in runs:
        again = RunConfig.model_validate_json(run.model_dump_json())
        assert (again, again.run_key) == (run, run.run_key)


def test_a_run_that_the_seed_does_not_affect_is_planned_for_the_first_seed_only(write):
    path = write(KERNELS + NETWORK)
    path.write_text(path.read_text().replace("seeds: 2", "seeds: [7, 3]"))
    runs = plan(read_sweep(path))
    assert [run.seed for run in runs] == [7, 7, 7, 7, 7, 3]
    assert [run.model.kind for run in runs] == ["kernel_regression"] * 4 + ["prototypes"] * 2


def test_the_key_of_a_run_is_pinned():
    run = run_config("two_moons", kind="kernel_regression", bandwidth="loo")
    assert run.model == KernelRegressionConfig(kernel="gaussian", parameters={"bandwidth": "loo"})
    assert run.run_key == "fa6d0b738d7479965d46f3eb86447c69c76bf0b2affe075e88025ffd3d1f10d5"


def test_runs_have_rows_and_columns_like_others(results):
    frame = results.to_frame().set_index("model")
    rows = frame.loc["kernel_regression"]
    assert set(rows["method"]) == {"gaussian_kernel", "boxcar_kernel", "shepard_kernel"}
    assert rows[["test_accuracy", "test_queries_without_neighbours"]].notna().all(axis=None)
    assert rows["prototypes"].isna().all()
    assert (rows["train_bandwidth"].isna() == (rows["kernel"] == "shepard")).all()
    assert {run.config.model.kind for run in results.find_runs(methods=["boxcar_kernel"])} == {"kernel_regression"}


def test_the_memory_of_a_table_is_all_training_data(results):
    table = section_tables(summarise(results.find_runs()))[0]
    columns = {column.name: [cell.text for cell in column.cells] for column in table.columns}
    assert columns["prototypes"] == ["all"] * 6 + ["2"]
    assert columns["setting"] == ["h=0.1", "h=loo", "h=0.1", "h=loo", "p=2, ε=0", "p=2, ε=0.1", "σ²=2"]


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in FORMULAS])
def test_figures_of_trained_networks_refuse_them(results, name):
    runs = [run for run in results.find_runs() if run.config.model.kind == "kernel_regression"]
    with pytest.raises(ConfigError):
        stored_drawing(name, results, runs)


def test_a_figure_of_networks_says_that_the_others_are_not_drawn(results):
    drawing = stored_drawing("moons", results, results.find_runs())
    assert any("6 runs of kind 'kernel_regression'" in line for line in drawing.left_out)


def test_the_examples_of_the_page_work_and_its_table_has_every_kernel(tmp_path):
    page = (Path(__file__).parents[2] / "docs/kernel_regression.md").read_text(encoding="utf-8")
    path = tmp_path / "kernels.yaml"
    path.write_text(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    assert len(plan(read_sweep(path))) == 12 + 4 + 6 * 3
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == [*all_kernels]
