"""`idwbench patch`: inputs get their labels, and the effect on others is counted."""

import json
import shutil

import pytest
from case_tables import VERSION_0_1_0
from typed import files, wrong_label

from idwbench.attention.scores import METHODS
from idwbench.models.model_file import load_model


@pytest.fixture
def wrong(folder):
    """The label that the model does not give to the input of a patch."""
    return wrong_label(folder / "model.pt", "0,1")


def test_a_dry_run_prints_the_same_numbers_and_writes_nothing(run, folder, wrong):
    before = files(folder)
    dry = run(f"patch model.pt --x 0,1 --label {wrong} --dry-run --json")
    assert files(folder) == before
    written = json.loads(run(f"patch model.pt --x 0,1 --label {wrong} -o patched.pt --json").stdout)
    assert {**json.loads(dry.stdout), "model": "patched.pt"} == written
    assert written["patches"][0]["certified_radius"] > 0 and written["effects"]["train"]["worse"] == 0


def test_a_radius_that_is_given_is_used_and_exact_patches_are_those_of_the_paper(run, folder, wrong):
    dry = f"patch model.pt --x 0,1 --label {wrong} --dry-run --json"
    [given] = json.loads(run(f"{dry} --radius 0.25 --steepness 8").stdout)["patches"]
    assert (given["radius"], given["steepness"]) == (0.25, 8)
    for words in ("--exact", "--eta exact", "--exact --margin 1"):
        [exact] = json.loads(run(f"{dry} {words}").stdout)["patches"]
        assert (exact["radius"], exact["steepness"]) == (pytest.approx(1e-3**0.5), 2)
        assert exact["probability"] > 0.5


def listed(run, model):
    return json.loads(run(f"patch {model} --list --json").stdout)["patches"]


def test_without_its_plugin_a_model_is_read_and_listed_and_what_computes_names_the_file_of_the_plugin(run, tmp_path):
    code = "def near(inputs, keys):\n    return -(inputs.unsqueeze(-2) - keys.unsqueeze(-3)).square().sum(-1)\n"
    (tmp_path / "near.py").write_text(f"from idwbench import register\n@register('near')\n{code}")
    train = "train --dataset two_moons --method near --prototypes 4 --epochs 1 -o near.pt --plugin near.py"
    assert run(train).exit_code == 0
    patch = f"patch near.pt --x 0,1 --label {wrong_label(tmp_path / 'near.pt', '0,1')} -o patched.pt"
    assert run(patch).exit_code == 0
    [before] = listed(run, "patched.pt")
    del METHODS["near"]
    assert listed(run, "patched.pt") == [
        {name: fact for name, fact in before.items() if fact is not None} | {"holds": None}
    ]
    lines = run("patch patched.pt --list").stdout.strip().splitlines()
    assert lines[0].split() == ["patch", "x", "wanted", "kind", "radius", "certified", "reach"]
    assert lines[-1].startswith("whether they hold is not known (patched.pt: ")
    assert "'near'" in lines[-1] and "near.py" in lines[-1]
    assert "near.py" in run("card patched.pt").stdout
    for command in (
        "explain patched.pt --x 0,1",
        "patch patched.pt --undo 1 -o undone.pt",
        "export near.pt -o near.onnx",
    ):
        refused = run(command)
        words = "its method 'near' is a plugin, near.py (give its file with --plugin)"
        assert (refused.exit_code, refused.stderr) == (2, f"idwbench: {command.split()[1]}: {words}\n")


def test_a_file_of_patches_holds_with_those_before_which_are_listed_and_undone(run, folder):
    rows = [f'"{x}",{("upper", "lower")[wrong_label(folder / "model.pt", x)]}\n' for x in ("-1,1", "0.5,0.4")]
    (folder / "patches.csv").write_text("x,label\n" + "".join(rows))
    result = run("patch 2.pt --file patches.csv -o 4.pt")
    assert result.stdout.splitlines()[0] == "2 new prototypes; all 2 inputs hold"
    patches = listed(run, "4.pt")
    assert [(one["x"], one["holds"]) for one in patches] == [(x, True) for x in ("0,1", "1,0", "-1,1", "0.5,0.4")]
    assert (patches[0]["kind"], patches[0]["margin"], patches[0]["steepness"]) == ("local", None, 32.0)
    facts = json.loads(run("patch 2.pt --undo 2 -o undone.pt --json").stdout)
    assert (facts["undone"], facts["model"]) == (2, "undone.pt")
    assert (folder / "undone.pt").read_bytes() == (folder / "1.pt").read_bytes()
    assert run("patch model.pt --list").stdout == "no patches\n" and listed(run, "model.pt") == []


@pytest.mark.parametrize(("name", "x", "label"), [("idw.pt", "0,1", 1), ("digits.safetensors", "digits:test:5", 1)])
def test_a_model_of_version_0_1_0_is_patched(run, tmp_path, name, x, label):
    before = load_model(shutil.copy(VERSION_0_1_0 / name, tmp_path))
    result = run(f"patch {name} --x {x} --label {label} --margin 1 -o new-{name}")
    assert result.exit_code == 0, result.output
    after = load_model(tmp_path / f"new-{name}")
    assert len(after.keys) == len(before.keys) + 1
    assert after.config.run_key == before.provenance["run_key"] == after.provenance["run_key"]


def test_an_input_with_its_label_is_not_patched_unless_more_is_wanted(run, folder, wrong):
    right = ("upper", "lower")[1 - wrong]
    shown = run(f"patch model.pt --x 0,1 --label {right} -o new.pt").stdout
    assert shown == f"already right: the model answers {right} as requested; nothing was changed or written\n"
    assert not (folder / "new.pt").exists()
    lines = run(f"patch model.pt --x 0,1 --label {right} --margin 9 --dry-run").stdout.splitlines()
    assert lines[0] == f"label {right}, as before"
