"""The sweeps that pages show and name are what they say."""

from __future__ import annotations

import re

from blocks import PAGES, ROOT, blocks_of, page_text
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.sweep.shipped import shipped_sweeps
from idwbench.sweep.spec import plan, read_sweep


def sweep_text(page: str) -> str:
    return blocks_of(page, "yaml")[0].text


def test_the_sweep_of_the_readme_has_the_runs_of_its_grid_and_the_error_that_the_readme_shows(tmp_path):
    path, broken = tmp_path / "scores.yaml", tmp_path / "broken.yaml"
    path.write_text(sweep_text("README.md"))
    assert len(plan(read_sweep(path))) == 3 * 10
    broken.write_text(path.read_text().replace("method: [", "methd: ["))
    message = re.search(r"`scores.yaml:(\d+:\d+: [^`]*)`", page_text("README.md"))
    assert message is not None
    result = CliRunner().invoke(app, ["sweep", str(broken)])
    assert result.stderr.strip() == f"{broken}:{' '.join(message[1].split())}"


def test_the_sweep_of_the_page_of_perceptrons_is_the_shipped_one(tmp_path):
    path = tmp_path / "perceptrons.yaml"
    path.write_text(sweep_text("docs/dual_form.md"))
    shipped = plan(read_sweep(shipped_sweeps()["dual_form"]))
    assert [run.run_key for run in plan(read_sweep(path))] == [run.run_key for run in shipped]


def test_the_sweep_files_that_pages_name_are_shipped():
    named = {name for page in PAGES for name in re.findall(r"\bsweeps/[\w/]+\.yaml", page_text(page))} - {
        "sweeps/x.yaml"
    }
    assert {"sweeps/two_moons.yaml", "sweeps/dual_history.yaml"} <= named
    assert named <= {str(path.relative_to(ROOT)) for path in (ROOT / "sweeps").rglob("*.yaml")}
