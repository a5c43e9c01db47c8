"""Sweeps that come with idwbench are found by name, and paths stay paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.errors import SpecError
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.shipped import shipped_descriptions, shipped_sweeps, sweep_path
from idwbench.sweep.spec import read_sweep

ROOT = Path(__file__).parents[2]


def test_every_sweep_file_of_the_repository_has_a_name_of_its_own_and_is_found():
    files = sorted((ROOT / "sweeps").rglob("*.yaml"))
    assert len({file.stem for file in files}) == len(files)
    assert sorted(shipped_sweeps().values()) == files
    assert {name: read_sweep(file).name for name, file in shipped_sweeps().items()} == {n: n for n in shipped_sweeps()}


def test_a_bare_name_is_a_shipped_sweep_even_beside_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("two_moons").write_text("not a sweep")
    assert sweep_path("two_moons") == shipped_sweeps()["two_moons"]
    assert sweep_path("paper_mnist").parent.name == "paper"


@pytest.mark.parametrize("path", ["two_moons.yaml", "./two_moons", "folder/two_moons", "two_moons/", "", "a\0b"])
def test_a_suffix_or_a_folder_makes_a_path(path):
    assert sweep_path(path) == Path(path)


def test_a_path_object_is_a_path_and_a_bare_file_without_a_shipped_name_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine").touch()
    assert sweep_path(Path("two_moons")) == Path("two_moons")
    assert sweep_path("mine") == Path("mine")


def test_a_wrong_name_is_one_line_with_the_nearest_shipped_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        sweep_path("two_mons")
    assert str(caught.value) == "two_mons: no such file, and no shipped sweep of this name (did you mean 'two_moons'?)"
    result = CliRunner().invoke(app, ["sweep", "two_mons"])
    assert (result.exit_code, result.stderr) == (2, f"{caught.value}\n")
    assert list(tmp_path.iterdir()) == []


def test_the_library_takes_the_name_of_a_shipped_sweep(tmp_path, monkeypatch):
    shipped = {"tiny": tmp_path / "tiny.yaml"}
    shipped["tiny"].write_text(
        "name: tiny\ndataset: two_moons\nprotocol: {epochs: 1}\nseeds: 1\ngrid: {method: idw, prototypes: 2}\n"
    )
    monkeypatch.setattr("idwbench.sweep.shipped.shipped_sweeps", lambda: shipped)
    assert run_sweep("tiny", tmp_path / "results.db").complete == 1


def test_the_list_has_each_shipped_sweep_with_its_description_on_a_line():
    lines = CliRunner().invoke(app, ["sweep", "--list"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*shipped_sweeps()]
    assert [line.split(None, 1)[1] for line in lines] == [*shipped_descriptions().values()]
    listed = json.loads(CliRunner().invoke(app, ["sweep", "--list", "--json"]).stdout)
    assert {one["name"]: one["description"] for one in listed} == shipped_descriptions()


def test_a_sweep_without_a_file_says_what_is_missing():
    result = CliRunner().invoke(app, ["sweep"])
    assert result.exit_code == 2
    assert result.stderr == "idwbench: missing argument 'FILE': a sweep file, or the name of a shipped sweep (--list)\n"
