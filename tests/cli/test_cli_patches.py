"""`idwbench patch`: many patches, listed and undone."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from typed import assert_one_line, files
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.data.dataset import Dataset
from idwbench.models.model_file import load_model


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model, and the same with two patches."""
    folder = tmp_path_factory.mktemp("trained")
    runner = CliRunner()
    train = ["train", "--dataset", "two_moons", "--epochs", "3", "--prototypes", "6", "-o", str(folder / "model.pt")]
    result = runner.invoke(app, [*train, "--db", str(folder / "results.db")])
    assert result.exit_code == 0, result.output
    for number, point in enumerate(("0,1", "1,0")):
        start, patched = (str(folder / name) for name in (("model.pt", "1.pt", "2.pt")[number : number + 2]))
        result = runner.invoke(app, ["patch", start, "--x", point, "--label", wrong(folder, point), "-o", patched])
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


def wrong(folder, point: str) -> str:
    """The class that the trained model does not give a point."""
    network = load_model(folder / "model.pt").network
    return ("lower", "upper")[int(network.predict(np.float32([point.split(",")]))[0])]


def test_patches_are_listed_with_whether_they_hold(run, folder):
    lines = [line.split() for line in run("patch", "2.pt", "--list").stdout.splitlines() if line.strip()]
    assert lines[0] == ["patch", "x", "label", "criterion", "eta", "value", "holds"]
    assert [line[:2] + line[-1:] for line in lines[2:]] == [["1", "0,1", "yes"], ["2", "1,0", "yes"]]
    facts = json.loads(run("patch", "2.pt", "--list", "--json").stdout)
    assert [(one["number"], one["x"], one["holds"]) for one in facts["patches"]] == [(1, "0,1", True), (2, "1,0", True)]
    assert facts["patches"][0]["criterion"] == {"kind": "margin", "amount": 0.001}


def test_a_model_without_patches_lists_none(run, folder):
    assert run("patch", "model.pt", "--list").stdout == "no patches\n"
    assert json.loads(run("patch", "model.pt", "--list", "--json").stdout)["patches"] == []


def test_undoing_restores_the_file_before(run, folder):
    result = run("patch", "2.pt", "--undo", 2, "-o", "undone.pt")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "patch 2 undone, 1 left"
    assert (folder / "undone.pt").read_bytes() == (folder / "1.pt").read_bytes()
    assert run("patch", "1.pt", "--undo", 1, "-o", "none.pt").exit_code == 0
    assert (folder / "none.pt").read_bytes() == (folder / "model.pt").read_bytes()


def test_undoing_an_earlier_patch_says_so_in_json(run, folder):
    facts = json.loads(run("patch", "2.pt", "--undo", 1, "-o", "undone.pt", "--json").stdout)
    assert (facts["undone"], facts["broken"], facts["model"]) == (1, [], "undone.pt")
    assert [patch["x"] for patch in load_model(folder / "undone.pt").patches] == ["1,0"]


def test_a_file_of_patches_holds_with_those_before(run, folder):
    (folder / "patches.csv").write_text(
        f'x,label\n"-1,1",{wrong(folder, "-1,1")}\n"0.5,0.4",{wrong(folder, "0.5,0.4")}\n'
    )
    result = run("patch", "2.pt", "--file", "patches.csv", "-o", "4.pt")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "2 patches; all 2 inputs get their labels"
    assert "of 200 predictions changed" in result.stdout
    facts = json.loads(run("patch", "4.pt", "--list", "--json").stdout)
    assert [(one["x"], one["holds"]) for one in facts["patches"]] == [
        ("0,1", True),
        ("1,0", True),
        ("-1,1", True),
        ("0.5,0.4", True),
    ]
    again = run("patch", "4.pt", "--file", "patches.csv", "-o", "5.pt")
    assert again.stdout == "already right: all 2 inputs get their labels; nothing was changed or written\n"
    assert not (folder / "5.pt").exists()


def test_a_patch_that_breaks_an_earlier_one_gives_it_a_new_eta(run, folder):
    right = ("lower", "upper")[wrong(folder, "0,1") == "lower"]
    result = run("patch", "1.pt", "--x", "0,1.01", "--label", right, "--logit-margin", 1, "-o", "again.pt")
    assert "earlier patches would have been broken, new eta for patch 1" in result.stdout
    facts = json.loads(run("patch", "again.pt", "--list", "--json").stdout)
    assert [one["holds"] for one in facts["patches"]] == [True, True]


def test_the_logits_are_kept_as_requested(run, folder):
    facts = json.loads(
        run(
            "patch", "1.pt", "--x", "-1,1", "--label", wrong(folder, "-1,1"), "--keep-logits", "-o", "k.pt", "--json"
        ).stdout
    )  # fmt: skip
    assert facts["keep_logits"] is True
    assert load_model(folder / "k.pt").patches[-1]["keep_logits"] is True
    assert "z + eta e_c" in run("patch", "k.pt", "--list").stdout


def test_other_data_than_that_of_the_training_is_named_and_nothing_measured(run, folder, monkeypatch):
    other = property(lambda self: "f" * 64, lambda self, value: None)
    monkeypatch.setattr(Dataset, "sha256", other, raising=False)
    result = run("patch", "1.pt", "--x", "-1,1", "--label", wrong(folder, "-1,1"), "-o", "other.pt")
    assert result.exit_code == 0, result.output
    assert "warning: the effect on other inputs is not measured: the data two_moons is not" in result.stderr
    assert "predictions changed" not in result.stdout


CALLS = {
    "nothing to do": (["model.pt"], "give --x and --label, --file, --undo or --list"),
    "x without label": (["model.pt", "--x", "0,1"], "--label is missing"),
    "label without x": (["model.pt", "--label", 1], "--x is missing"),
    "x and file": (
        ["model.pt", "--x", "0,1", "--label", 1, "--file", "good.csv"],
        "--file: cannot be combined with --x",
    ),
    "label and file": (["model.pt", "--label", 1, "--file", "good.csv"], "--file: cannot be combined with --label"),
    "list and undo": (["2.pt", "--list", "--undo", 1], "--list: cannot be combined with --undo"),
    "list and output": (["2.pt", "--list"], "--output: cannot be combined with --list"),
    "undo and margin": (["2.pt", "--undo", 1, "--margin", 1], "--margin: cannot be combined with --undo"),
    "undo 0": (["2.pt", "--undo", 0], "--undo: no patch has the number 0 (expected 1 to 2)"),
    "undo 99": (["2.pt", "--undo", 99], "--undo: no patch has the number 99 (expected 1 to 2)"),
    "undo without patches": (["model.pt", "--undo", 1], "the model has no patches"),
    "absent file": (["model.pt", "--file", "absent.csv"], "absent.csv: no such file"),
    "bad number": (["model.pt", "--file", "bad.csv"], "bad.csv:3: x: 'zero' is not a finite number"),
    "bad label": (["model.pt", "--file", "label.csv"], "label.csv:2: label: no class is called 'lowr'"),
    "conflict": (["model.pt", "--file", "conflict.csv"], "different labels for line 2 and line 4 (distance 0)"),
    "conflict with a patch": (["1.pt", "--file", "both.csv"], "different labels for patch 1 and line"),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_wrong_call_is_refused_in_one_line_and_writes_nothing(run, folder, case):
    (folder / "good.csv").write_text('x,label\n"0,1",1\n')
    (folder / "bad.csv").write_text('x,label\n"0,1",1\n"zero,1",0\n')
    (folder / "label.csv").write_text('x,label\n"0,1",lowr\n')
    (folder / "conflict.csv").write_text('x,label\n"0,1",lower\n"1,0",lower\n"0,1",upper\n')
    (folder / "both.csv").write_text('x,label\n"0,1",lower\n"0,1",upper\n')
    arguments, words = CALLS[case]
    before = files(folder)
    assert_one_line(run("patch", *arguments, "-o", "new.pt"), 2, words)
    assert files(folder) == before


def test_a_file_whose_records_do_not_fit_is_named(run, folder):
    from dataclasses import replace

    model = load_model(folder / "1.pt")
    replace(model, patches=model.patches * 2).save(folder / "damaged.pt")
    for arguments in (["--list"], ["--undo", 1, "--dry-run"], ["--x", "-1,1", "--label", 1, "--dry-run"]):
        assert_one_line(run("patch", "damaged.pt", *arguments), 2, "damaged.pt: 6 learned prototypes and 2 patches")
