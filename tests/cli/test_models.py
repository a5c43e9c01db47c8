"""`idwbench train`, and what is done with models: `import`, `export`, `card` and `explain`."""

import json
import re
from unittest.mock import Mock

import pytest
from recorded_mlp import load_made, recorded_config
from texts import lstm_run, text_file
from typed import assert_one_line, files

from idwbench import load_model, train

TRAIN = "train --dataset two_moons --epochs 3 --seed 0"


def test_train_prints_accuracies_stores_the_run_and_writes_the_model(run, tmp_path):
    train = f"{TRAIN} --power 4 --epsilon 0.01 --validation 0.1 --dataset-option noise=0.3"
    result = run(f"{train} -o model.safetensors")
    assert result.exit_code == 0, result.output
    words = [line.split()[0] for line in result.stdout.splitlines()]
    assert words == ["train", "validation", "test", "holdout", "model"]
    saved = load_model(tmp_path / "model.safetensors")
    assert saved.config.model.parameters == {"power": 4.0, "epsilon": 0.01}
    assert (saved.config.dataset.validation, saved.config.dataset.noise) == (0.1, 0.3)
    protocol = saved.config.protocol
    assert (protocol.epochs, protocol.batch_size, protocol.learning_rate) == (3, 10, 0.01)
    assert {"results/idwbench.db", "model.safetensors"} <= files(tmp_path)
    again = run(f"{train} -o again.safetensors --json")
    facts = json.loads(again.stdout)
    assert facts["state"] == "complete" and 0 < facts["test_accuracy"] <= 1
    assert "--retrain trains it again" in again.stderr
    run(f"{train} -o retrained.safetensors --retrain")
    exported = run(f"export {facts['run_key'][:12]} -o exported.safetensors")
    assert (exported.exit_code, exported.stdout) == (0, "exported.safetensors\n")
    models = (f"{name}.safetensors" for name in ("model", "again", "retrained", "exported"))
    assert len({(tmp_path / name).read_bytes() for name in models}) == 1


def test_a_run_and_its_file_have_the_same_card_and_export_and_a_card_lists_patches(run, folder):
    key = load_model(folder / "model.pt").config.run_key
    assert run(f"export {key[:10]} -o of_run.py --db models.db").exit_code == 0
    facts = json.loads(run("export model.pt -o of_file.py --json").stdout)
    assert facts == {"output": "of_file.py", "format": "numpy", "bytes": (folder / "of_file.py").stat().st_size}
    assert (folder / "of_run.py").read_text() == (folder / "of_file.py").read_text()
    card = json.loads(run("card model.pt --json").stdout)
    assert card == json.loads(run(f"card {key[:10]} --db models.db --json").stdout)
    lines = dict(line.split("  ", 1) for line in run("card model.pt").stdout.splitlines())
    assert lines["run key"].strip() == key
    assert lines["test metrics"].strip() == f"accuracy {card['metrics']['test']['accuracy']:.6g}"
    first, _ = json.loads(run("card 2.pt --json").stdout)["patches"]
    shown = ", ".join(f"{name.split('_')[0]} {first[name]:.4g}" for name in ("radius", "certified_radius", "reach"))
    lines = dict(line.split("  ", 1) for line in run("card 2.pt").stdout.splitlines())
    assert lines["patches"].strip() == "2" and lines["patch 1"].strip().endswith(f", {shown}")
    assert lines["patch 1"].strip().startswith("0,1 -> ")


def test_the_report_and_the_card_of_a_regression_have_the_target_in_its_own_units(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("train --dataset diabetes --prototypes 4 --epochs 2 -o model.pt").exit_code == 0
    printed = run("patch model.pt --x diabetes:test:1 --target 200 -o patched.pt").stdout.splitlines()
    assert re.fullmatch(r"output [\d.]+ -> 200", printed[0])
    assert re.fullmatch(r"train: of 354 others \d+ better, 0 worse; rmse [\d.]+ -> [\d.]+", printed[3])
    lines = dict(line.split("  ", 1) for line in run("card patched.pt").stdout.splitlines())
    assert lines["patch 1"].strip().startswith("diabetes:test:1 -> 200, radius ")
    assert float(lines["test, patched"].split()[-1]) == pytest.approx(float(printed[4].split()[-1]), rel=1e-3)


RUN = recorded_config().run_key
X = "--x sequence:test:4 --db models.db"


@pytest.fixture
def explained(run, folder, monkeypatch):
    """Explain an answer of the recorded network, whose data are at hand."""
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_made)
    return lambda words: run(f"explain {words}")


def test_a_recorded_network_is_printed_layer_by_layer_and_json_has_everything(explained):
    result = explained(f"{RUN[:12]} {X} --top 3 --mask task=fashion_mnist")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    for name in ("layer_0", "layer_1"):
        assert f"{name}: the 3 largest attentions of 42 slots" in lines
    header = next(line for line in lines if "contribution" in line)
    assert header.split() == ["source", "class", "task", "visits", "step", "attention", "contribution"]
    assert sum(line.startswith(" sequence:train:") for line in lines) == 6
    [effect] = [line for line in lines if line.startswith("without ")]
    assert effect.startswith("without task=fashion_mnist (20 of 42 slots): ")
    assert [line.split(":")[0] for line in lines[-2:]] == ["test mnist", "test fashion_mnist"]
    facts = json.loads(explained(f"{RUN} {X} --top 2 --layer layer_1 --mask label=2 --json").stdout)
    assert (facts["memory"], facts["x"], facts["target"]) == ("history of training", "sequence:test:4", "1")
    assert (len(facts["answer"]["probabilities"]), facts["figure"]) == (3, None)
    [layer] = facts["layers"]
    assert (layer["layer"], layer["size"], len(layer["items"])) == ("layer_1", 42, 2)
    names = "source attention class row task visits step value contribution input nearest outside columns"
    assert set(layer["items"][0]) == set(names.split()) and len(layer["items"][0]["input"]) == 6
    assert [(row["class"], len(row["largest"])) for row in layer["classes"]] == [("0", 14), ("1", 14), ("2", 14)]
    assert (facts["mask"]["conditions"], facts["mask"]["removed"]) == (["label=2"], 14)


def test_a_file_that_ends_too_early_is_one_line(explained, monkeypatch):
    load = Mock(side_effect=EOFError("No data left in file"))
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load)
    assert_one_line(explained(f"{RUN} {X}"), 1, "a file ends before its content does (No data left in file)")


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
