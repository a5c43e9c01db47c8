"""All figures, tables and claims of the paper from a database, whatever it holds."""

from inspect import signature
from pathlib import Path

import pytest

from idwbench import Results, run_config, train, write_publication
from idwbench.errors import ConfigError, OutputError
from idwbench.publications.publication import publications
from idwbench.report.leaderboard import leaderboard
from idwbench.report.reports import table
from idwbench.sweep.spec import read_sweep, shipped_sweeps

SWEEPS = Path(__file__).parents[1] / "sweeps/paper"

pytestmark = pytest.mark.slow


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def empty(tmp_path):
    return Results(tmp_path / "empty.db")


@pytest.mark.parametrize("name", publications())
def test_a_publication_is_of_shipped_sweeps_with_the_names_of_their_files(name):
    publication = publications()[name]
    assert {name for item in publication.items for name in (item.sweep, *item.also)} - {None} <= set(publication.sweeps)
    assert [read_sweep(shipped_sweeps()[sweep]).name for sweep in publication.sweeps] == list(publication.sweeps)
    for item in (item for item in publication.items if item.figure is None):
        assert item.options.keys() <= signature(leaderboard if "split" in item.options else table).parameters.keys()
    if name == "paper":
        assert {path.stem for path in SWEEPS.glob("*.yaml")} == set(publication.sweeps)


@pytest.mark.parametrize(
    ("name", "figures", "missing"),
    [
        ("paper", {"figure1_weights.png", "figure1_weights_p1.png"}, "paper_mnist: 40 runs of 40 missing"),
        ("family", {"kernels.png", "kernel_regression.png"}, "network_digits: not in the database"),
    ],
)
def test_an_empty_database_gives_the_figures_of_formulas_and_all_gaps(empty, tmp_path, name, figures, missing):
    written, folder = write_publication(name, empty, tmp_path / "new/folder"), tmp_path / "new/folder"
    names = {path.name for path in written.files}
    assert names == {*figures, "claims.md", "claims.json", "README.md"}
    assert all(path.exists() for path in written.files)
    assert {Path(str(gap.sweep_file)).stem for gap in written.gaps} == set(publications()[name].sweeps)
    assert missing in (folder / "README.md").read_text(encoding="utf-8")
    if name == "family":
        return
    before = contents(folder)
    write_publication(name, empty, folder, overwrite=True)
    assert contents(folder) == before, "the same runs give the same bytes"


def test_one_seed_gives_what_it_can_and_says_how_many_runs_are_missing(tmp_path):
    for settings in ({"kind": "patch_study"}, {"power": 4.0}, {"method": "inv_dist"}):
        train(run_config("two_moons", prototypes=16, **settings), tmp_path / "one.db")
    one_seed = Results(tmp_path / "one.db", read_only=True)
    paper = write_publication("paper", one_seed, tmp_path / "paper", figure_format="svg")
    names = {path.name for path in paper.files}
    figures = ("figure2_two_moons", "figures3_6_patches", "patches_two_moons_influence", "figure5_power_epsilon")
    assert {f"{name}.svg" for name in figures} <= names
    assert {"table_two_moons.md", "table_two_moons.csv", "quality_two_moons_relative_coverage.md"} <= names
    assert not {name for name in names if "mnist" in name}
    problems = {gap.name: gap.problem for gap in paper.gaps}
    assert problems["paper_two_moons"] == "538 runs of 540 missing"
    assert problems["paper_power_epsilon"] == "298 runs of 300 missing"
    assert problems["table1_mnist"] == "no runs"
    assert "not enough runs" in (tmp_path / "paper/claims.md").read_text()
    sweeps = (tmp_path / "paper/README.md").read_text(encoding="utf-8")
    assert "| `sweeps/paper/paper_two_moons.yaml` | 540 | 1 |" in sweeps


def test_what_cannot_be_written_is_refused_before_anything_is(empty, tmp_path):
    (folder := tmp_path / "mine").mkdir()
    (folder / "table1_mnist.csv").write_text("mine")  # one of the last to be written
    with pytest.raises(OutputError, match="exists already"):
        write_publication("paper", empty, folder)
    with pytest.raises(ConfigError, match="expected png, svg or pdf, got 'gif'"):
        write_publication("paper", empty, tmp_path / "out", figure_format="gif")
    with pytest.raises(ConfigError, match="unknown publication 'papr'"):
        write_publication("papr", empty, tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} == {"empty.db", "mine", "table1_mnist.csv"}
    assert (folder / "table1_mnist.csv").read_text() == "mine"


def test_make_family_runs_the_sweeps_of_the_family():
    makefile = (SWEEPS.parents[1] / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    run = [name for line in makefile.splitlines() if line.startswith("FAMILY_") for name in line.split(":=")[1].split()]
    assert {Path(name).name for name in run} == set(publications()["family"].sweeps)
