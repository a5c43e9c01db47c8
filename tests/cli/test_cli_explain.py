"""`idwbench explain`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from recorded_mlp import load_made, recorded_config, store_recorded
from texts import lstm_run, text_file
from typed import assert_one_line, files
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.data.loading import load_dataset
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.sweep.execution import train

RUN = recorded_config().run_key
PLAIN = run_config("two_moons", kind="mlp")
X = ["--x", "sequence:test:4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model file, and a database with its run, a recorded run, and one without memory."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["train", "--dataset", "two_moons", "--epochs", "3", "--prototypes", "6", "-o", str(folder / "model.pt")]
    result = CliRunner().invoke(app, [*words, "--db", str(folder / "results.db")])
    assert result.exit_code == 0, result.output
    store_recorded(folder / "results.db")
    Results(folder / "results.db").plan([PLAIN])
    return folder


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_made)
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def explained(run, folder):
    return lambda *words: run("explain", *words, "--db", "results.db")


def test_prototypes_are_printed_with_their_weights_and_totals_by_class(explained, monkeypatch):
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_dataset)
    result = explained("model.pt", "--x", "two_moons:test:3", "--top", 2)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines() if line.strip()]
    assert lines[:2] == ["idw · 6 prototypes · p=2, ε=0.001", "input two_moons:test:3, target upper"]
    assert lines[2].startswith(("answer upper (probability 0.", "answer lower (probability 0."))
    assert lines[3] == "prototypes: the 2 largest weights of 6 prototypes"
    assert lines[4].split() == ["source", "class", "weight", "contribution"]
    assert lines[6].startswith(" prototype ") and "total weight by class (* the largest)" in lines
    assert sum("*" in line.split() for line in lines) == 1


def test_a_recorded_network_is_printed_layer_by_layer(explained):
    result = explained(RUN[:12], *X, "--top", 3, "--mask", "task=fashion_mnist")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    for name in ("layer_0", "layer_1"):
        assert f"{name}: the 3 training samples with the largest attention, of 42 slots" in lines
    header = next(line for line in lines if "contribution" in line)
    assert header.split() == ["source", "class", "task", "visits", "step", "attention", "contribution"]
    assert sum(line.startswith(" sequence:train:") for line in lines) == 6
    [effect] = [line for line in lines if line.startswith("without ")]
    assert effect.startswith("without task=fashion_mnist (20 of 42 slots): ")
    assert [line.split(":")[0] for line in lines[-2:]] == ["test mnist", "test fashion_mnist"]


def test_json_has_everything(explained):
    result = explained(RUN, *X, "--top", 2, "--layer", "layer_1", "--mask", "label=2", "--json")
    facts = json.loads(result.stdout)
    assert (facts["memory"], facts["x"], facts["target"]) == ("history of training", "sequence:test:4", "1")
    assert len(facts["answer"]["probabilities"]) == 3
    [layer] = facts["layers"]
    assert (layer["layer"], layer["size"], len(layer["items"])) == ("layer_1", 42, 2)
    assert set(layer["items"][0]) == {
        *("source", "attention", "class", "row", "task", "visits", "step", "value", "contribution", "input")
    }
    assert len(layer["items"][0]["input"]) == 6
    assert [row["class"] for row in layer["classes"]] == ["0", "1", "2"]
    assert [len(row["largest"]) for row in layer["classes"]] == [14, 14, 14]
    assert facts["mask"]["conditions"] == ["label=2"] and facts["mask"]["removed"] == 14
    assert [change["name"] for change in facts["mask"]["accuracy"]] == ["test mnist", "test fashion_mnist"]
    assert facts["figure"] is None


def test_a_figure_is_written_and_an_existing_one_kept_unless_forced(explained, folder):
    words = (RUN, *X, "--top", 1, "-o", "why.png")
    result = explained(*words)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "figure why.png"
    first = (folder / "why.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert_one_line(explained(*words), 2, "why.png: exists already (--force replaces it)")
    assert explained(*words, "--force", "--json").exit_code == 0
    assert (folder / "why.png").read_bytes() == first


def test_an_image_file_or_numbers_are_inputs(explained, folder):
    pixels = np.arange(0, 240, 40, dtype=np.uint8).reshape(2, 3)
    Image.fromarray(pixels).save(folder / "x.png")
    np.save(folder / "x.npy", pixels)
    found = [json.loads(explained(RUN, "--x", x, "--json").stdout) for x in ("x.png", "x.npy", "0,40,80,120,160,200")]
    assert found[0]["answer"] == found[1]["answer"] == found[2]["answer"]
    assert [one["target"] for one in found] == [None] * 3


REFUSED = {
    "nothing": ([RUN], 2, "give --x, or --prompt for a language model"),
    "prompt and x": ([RUN, *X, "--prompt", "a"], 2, "--x: cannot be combined with --prompt"),
    "prompt and mask": ([RUN, "--prompt", "a", "--mask", "label=1"], 2, "--mask: cannot be combined with --prompt"),
    "prompt and figure": ([RUN, "--prompt", "a", "-o", "a.png"], 2, "--output: cannot be combined with --prompt"),
    "prompt and file": (["model.pt", "--prompt", "a"], 2, "--prompt: a model file takes no prompt"),
    "prompt of mlp": ([RUN, "--prompt", "a"], 2, "--prompt: only a run of kind lstm_lm reads one, not mlp"),
    "unknown layer": ([RUN, *X, "--layer", "layer_7"], 2, "--layer: unknown layer 'layer_7' (did you mean 'layer_"),
    "unknown task": ([RUN, *X, "--mask", "task=mist"], 2, "--mask: no task is called 'mist' (did you mean 'mnist'?)"),
    "no such row": ([RUN, "--x", "sequence:test:99"], 2, "--x: sequence:test has inputs 0 to 11, got '99'"),
    "wrong size": ([RUN, "--x", "1,2,3"], 2, "--x: expected 6 numbers, got 3"),
    "top 0": ([RUN, *X, "--top", "0"], 2, "--top"),
    "no memory": ([PLAIN.run_key, *X], 2, "the run has no memory: its training was not recorded"),
    "no file": (["absent.pt", *X], 2, "absent.pt: no such file"),
    "no key": (["xyz", *X], 2, "'xyz' is neither a model file (.pt, .safetensors) nor the key of a stored run"),
    "unknown key": (["abcdef0", *X], 1, "no run has a key that begins with 'abcdef0'"),
    "suffix": ([RUN, *X, "-o", "why.txt"], 2, "cannot write a figure as '.txt'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_call_is_refused_in_one_line_and_writes_nothing(explained, folder, case):
    words, exit_code, message = REFUSED[case]
    before = files(folder)
    assert_one_line(explained(*words), exit_code, message)
    assert files(folder) == before


def test_a_recording_that_was_moved_or_cut_is_named(explained, folder):
    recording = folder / "results.db.recordings" / RUN
    keys = recording / "layer_1.keys.npy"
    keys.write_bytes(keys.read_bytes()[:-4])
    assert_one_line(explained(RUN, *X), 1, "layer_1.keys.npy")
    keys.write_bytes(b"")
    assert_one_line(explained(RUN, *X), 1, "layer_1.keys.npy: is cut or damaged")
    recording.rename(folder / "elsewhere")
    assert_one_line(explained(RUN, *X), 1, "there is no recording: it was moved or deleted")


def test_a_file_that_ends_too_early_is_no_interruption(explained, monkeypatch):
    def load(*arguments):
        raise EOFError("No data left in file")

    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load)
    assert_one_line(explained(RUN, *X), 1, "a file ends before its content does (No data left in file)")


def test_a_prompt_is_answered_with_passages_of_the_text(run, tmp_path):
    config = lstm_run(text_file(tmp_path), record=True)
    train(config, tmp_path / "results.db")
    result = run(
        "explain", config.run_key[:10], "--prompt", "the ", "--top", 2, "--layer", "head", "--db", "results.db"
    )
    assert result.exit_code == 0, result.output
    assert "head: 2 passages of the" in result.stdout and "prompt 'the '" in result.stdout
    facts = json.loads(run("explain", config.run_key, "--prompt", "the ", "--json", "--db", "results.db").stdout)
    assert [layer["layer"] for layer in facts["layers"]] == ["lstm.input", "lstm.recurrent", "head"]
    refused = run("explain", config.run_key, "--x", "0,1", "--db", "results.db")
    assert_one_line(refused, 2, "--x: a run of kind lstm_lm reads a prompt, not an input")
