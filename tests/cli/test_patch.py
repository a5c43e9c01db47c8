"""`idwbench patch`: inputs get their labels, and the effect on others is counted."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from typed import assert_one_line, files, wrong_label

from idwbench.models import model_file
from idwbench.models.model_file import load_model
from idwbench.models.modules import PrototypeNetwork

ASSETS = Path(__file__).parents[1] / "assets" / "0.1.0"


@pytest.fixture
def wrong(folder):
    """The label that the model does not give to the input of a patch."""
    return wrong_label(folder / "model.pt", "0,1")


def test_patch_writes_a_model_that_answers_as_requested(run, folder, wrong):
    result = run(f"patch model.pt --x 0.0,1.0 --label {wrong} -o patched.pt")
    assert result.exit_code == 0, result.output
    patched = load_model(folder / "patched.pt")
    assert wrong_label(folder / "patched.pt", "0,1") == 1 - wrong
    assert len(patched.network.keys) == 7
    assert [patch["label"] for patch in patched.patches] == [wrong]
    lines = result.stdout.splitlines()
    assert lines[0].startswith("label ") and lines[1].startswith("eta ") and lines[-1] == "model patched.pt"
    assert "of 200 predictions changed" in lines[3] and "of 40 predictions changed" in lines[4]
    right = run(f"patch model.pt --x 0.0,1.0 --label {1 - wrong} -o right.pt")
    assert (right.exit_code, (folder / "right.pt").exists()) == (0, False)
    assert right.stdout.startswith("already right: the model answers ")
    before = (folder / "model.pt").read_bytes()
    assert run(f"patch model.pt --x 0.0,1.0 --label {wrong} -o model.pt --force").exit_code == 0
    assert (folder / "model.pt").read_bytes() != before


def test_patch_predicts_in_one_thread(run, folder, wrong, monkeypatch):
    seen, predict = [], PrototypeNetwork.predict
    monkeypatch.setattr(
        PrototypeNetwork, "predict", lambda *given: seen.append(torch.get_num_threads()) or predict(*given)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert run(f"patch model.pt --x 0,1 --label {wrong} --dry-run").exit_code == 0
        assert (set(seen), torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(before)


def test_a_model_that_does_not_meet_the_criterion_when_read_back_is_not_written(run, folder, wrong, monkeypatch):
    network, original = load_model(folder / "model.pt").network, model_file.model_content

    def forgetful(saved, suffix):
        return original(dataclasses.replace(saved, network=network if saved.patches else saved.network), suffix)

    monkeypatch.setattr(model_file, "model_content", forgetful)
    before = files(folder)
    result = run(f"patch model.pt --x 0,1 --label {wrong} -o patched.pt")
    assert_one_line(result, 2, "float32 cannot hold a patch that meets")
    assert files(folder) == before


def listed(run, model):
    return json.loads(run(f"patch {model} --list --json").stdout)["patches"]


def test_patches_are_listed_with_whether_they_hold(run, folder):
    lines = [line.split() for line in run("patch 2.pt --list").stdout.splitlines() if line.strip()]
    assert lines[0] == ["patch", "x", "label", "criterion", "eta", "value", "holds"]
    assert [line[:2] + line[-1:] for line in lines[2:]] == [["1", "0,1", "yes"], ["2", "1,0", "yes"]]
    assert listed(run, "2.pt")[0]["criterion"] == {"kind": "margin", "amount": 0.001}
    assert run("patch model.pt --list").stdout == "no patches\n" and listed(run, "model.pt") == []


def test_undoing_restores_the_file_before(run, folder):
    result = run("patch 2.pt --undo 2 -o undone.pt")
    assert result.stdout.splitlines()[0] == "patch 2 undone, 1 left"
    assert (folder / "undone.pt").read_bytes() == (folder / "1.pt").read_bytes()
    facts = json.loads(run("patch 2.pt --undo 1 -o first.pt --json").stdout)
    assert (facts["undone"], facts["broken"], facts["model"]) == (1, [], "first.pt")


def test_a_file_of_patches_holds_with_those_before(run, folder):
    rows = [
        f'"{point}",{("upper", "lower")[wrong_label(folder / "model.pt", point)]}\n' for point in ("-1,1", "0.5,0.4")
    ]
    (folder / "patches.csv").write_text("x,label\n" + "".join(rows))
    result = run("patch 2.pt --file patches.csv -o 4.pt")
    assert result.stdout.splitlines()[0] == "2 patches; all 2 inputs get their labels"
    expected = [(point, True) for point in ("0,1", "1,0", "-1,1", "0.5,0.4")]
    assert [(one["x"], one["holds"]) for one in listed(run, "4.pt")] == expected
    again = run("patch 4.pt --file patches.csv -o 5.pt")
    assert again.stdout == "already right: all 2 inputs get their labels; nothing was changed or written\n"
    assert not (folder / "5.pt").exists()


def test_a_patch_that_breaks_an_earlier_one_gives_it_a_new_eta(run, folder, wrong):
    result = run(f"patch 1.pt --x 0,1.01 --label {1 - wrong} --logit-margin 1 --keep-logits -o again.pt")
    assert "earlier patches would have been broken, new eta for patch 1" in result.stdout
    assert [(one["holds"], one["keep_logits"]) for one in listed(run, "again.pt")] == [(True, False), (True, True)]
    assert "z + eta e_c" in run("patch again.pt --list").stdout


@pytest.mark.parametrize(("name", "x", "label"), [("idw.pt", "0,1", 1), ("digits.safetensors", "digits:test:5", 1)])
def test_a_model_of_version_0_1_0_is_patched(run, tmp_path, name, x, label):
    before = load_model(shutil.copy(ASSETS / name, tmp_path))
    result = run(f"patch {name} --x {x} --label {label} --logit-margin 1 -o new-{name}")
    assert result.exit_code == 0, result.output
    after = load_model(tmp_path / f"new-{name}")
    assert len(after.network.keys) == len(before.network.keys) + 1
    assert after.config.run_key == before.provenance["run_key"] == after.provenance["run_key"]
