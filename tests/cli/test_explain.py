"""`idwbench explain`: what it prints and writes."""

import json

import pytest
from recorded_mlp import load_made, recorded_config
from texts import lstm_run, text_file
from typed import assert_one_line

from idwbench.sweep.execution import train

RUN = recorded_config().run_key
X = "--x sequence:test:4 --db models.db"


@pytest.fixture
def explained(run, folder, monkeypatch):
    """Explain an answer of the recorded network, whose data are at hand."""
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_made)
    return lambda words: run(f"explain {words}")


def test_prototypes_are_printed_with_their_weights_and_totals_by_class(run, folder):
    result = run("explain model.pt --x two_moons:test:3 --top 2")
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines() if line.strip()]
    assert lines[:2] == ["idw · 6 prototypes · p=2, ε=0.001", "input two_moons:test:3, target upper"]
    assert lines[2].startswith(("answer upper (probability 0.", "answer lower (probability 0."))
    assert lines[3] == "prototypes: the 2 largest weights of 6 prototypes"
    assert lines[4].split() == ["source", "class", "weight", "contribution"]
    assert lines[6].startswith(" prototype ") and "total weight by class (* the largest)" in lines
    assert sum("*" in line.split() for line in lines) == 1


def test_a_recorded_network_is_printed_layer_by_layer(explained):
    result = explained(f"{RUN[:12]} {X} --top 3 --mask task=fashion_mnist")
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
    facts = json.loads(explained(f"{RUN} {X} --top 2 --layer layer_1 --mask label=2 --json").stdout)
    assert (facts["memory"], facts["x"], facts["target"]) == ("history of training", "sequence:test:4", "1")
    assert (len(facts["answer"]["probabilities"]), facts["figure"]) == (3, None)
    [layer] = facts["layers"]
    assert (layer["layer"], layer["size"], len(layer["items"])) == ("layer_1", 42, 2)
    names = "source attention class row task visits step value contribution input"
    assert set(layer["items"][0]) == set(names.split()) and len(layer["items"][0]["input"]) == 6
    assert [(row["class"], len(row["largest"])) for row in layer["classes"]] == [("0", 14), ("1", 14), ("2", 14)]
    assert (facts["mask"]["conditions"], facts["mask"]["removed"]) == (["label=2"], 14)


def test_a_figure_is_written_and_an_existing_one_kept_unless_forced(run, folder):
    words = "explain model.pt --x 0,1 --top 1 -o why.png"
    assert run(words).stdout.splitlines()[-1] == "figure why.png"
    first = (folder / "why.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert_one_line(run(words), 2, "why.png: exists already (--force replaces it)")
    assert run(f"{words} --force --json").exit_code == 0
    assert (folder / "why.png").read_bytes() == first


def test_what_is_missing_or_ends_too_early_is_one_line(explained, folder, monkeypatch):
    def load(*arguments):
        raise EOFError("No data left in file")

    with monkeypatch.context() as patched:
        patched.setattr("idwbench.explanations.explain.load_dataset", load)
        assert_one_line(explained(f"{RUN} {X}"), 1, "a file ends before its content does (No data left in file)")
    recording = folder / "models.db.recordings" / RUN
    keys = recording / "layer_1.keys.npy"
    keys.write_bytes(keys.read_bytes()[:-4])
    assert_one_line(explained(f"{RUN} {X}"), 1, "layer_1.keys.npy")
    recording.rename(folder / "elsewhere")
    assert_one_line(explained(f"{RUN} {X}"), 1, "there is no recording: it was moved or deleted")


def test_a_prompt_is_answered_with_passages_of_the_text(run, tmp_path):
    config = lstm_run(text_file(tmp_path), record=True)
    train(config, tmp_path / "results.db")
    key = config.run_key
    result = run(f"explain {key[:10]} --top 2 --layer head --db results.db --prompt", "the ")
    assert result.exit_code == 0, result.output
    assert "head: 2 passages of the" in result.stdout and "prompt 'the '" in result.stdout
    facts = json.loads(run(f"explain {key} --json --db results.db --prompt", "the ").stdout)
    assert [layer["layer"] for layer in facts["layers"]] == ["lstm.input", "lstm.recurrent", "head"]
    refused = run(f"explain {key} --x 0,1 --db results.db")
    assert_one_line(refused, 2, "--x: a run of kind lstm_lm reads a prompt, not an input")
