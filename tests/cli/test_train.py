"""`idwbench train`, and what is done with its model: import, export, card."""

import json

import numpy as np
from typed import files

from idwbench.models.model_file import load_model

TRAIN = "train --dataset two_moons --epochs 3 --seed 0"


def test_train_prints_accuracies_stores_the_run_and_writes_the_model(run, tmp_path):
    result = run(f"{TRAIN} --power 4 --epsilon 0.01 -o model.safetensors")
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["train", "test", "holdout", "model"]
    saved = load_model(tmp_path / "model.safetensors")
    assert saved.config.model.parameters == {"power": 4.0, "epsilon": 0.01}
    protocol = saved.config.protocol
    assert (protocol.epochs, protocol.batch_size, protocol.learning_rate) == (3, 10, 0.01)
    assert {"results/idwbench.db", "model.safetensors"} <= files(tmp_path)
    again = run(f"{TRAIN} --power 4 --epsilon 0.01 -o again.safetensors --json")
    facts = json.loads(again.stdout)
    assert facts["state"] == "complete" and 0 < facts["test_accuracy"] <= 1
    assert "--retrain trains it again" in again.stderr
    run(f"{TRAIN} --power 4 --epsilon 0.01 -o retrained.safetensors --retrain")
    exported = run(f"export {facts['run_key'][:12]} -o exported.safetensors")
    assert (exported.exit_code, exported.stdout) == (0, "exported.safetensors\n")
    models = (f"{name}.safetensors" for name in ("model", "again", "retrained", "exported"))
    assert len({(tmp_path / name).read_bytes() for name in models}) == 1


def test_train_takes_settings_of_the_data_set_and_of_any_method(run, tmp_path):
    generator = np.random.default_rng(0)
    rows = [f"{x:.3f},{y:.3f},{'hot' if x + y > 0 else 'cold'}" for x, y in generator.normal(size=(60, 2))]
    (tmp_path / "mine.csv").write_text("\n".join(["a,b,kind", *rows]))
    words = "--method scaled_dot --scale prototypes --dataset-option test_fraction=0.5 --validation 0.1"
    result = run(f"train --dataset mine.csv --dataset-option label=kind -o m.pt --epochs 1 {words}")
    assert result.exit_code == 0, result.output
    assert load_model(tmp_path / "m.pt").class_names == ("cold", "hot")
    assert "mine.csv" in run("report --table mine.csv").stdout


def test_prototypes_are_imported_with_the_accuracies_on_their_data_and_exported(run, tmp_path):
    np.savez(tmp_path / "centres.npz", keys=[[0.0, 1.0], [1.0, -0.5]])
    data = "--dataset two_moons --dataset-option train_per_class=20"
    result = run(f"import centres.npz -o centres.safetensors {data} --method gaussian --json")
    facts = json.loads(result.stdout)
    assert facts["classes"] == ["upper", "lower"]
    assert facts["test_accuracy"] > 0.7
    lines = run(f"import centres.npz -o centres.pt {data}").stdout.splitlines()
    assert [line.rpartition(" accuracy")[0] for line in lines] == ["train", "test", "holdout", ""]
    facts = json.loads(run("export centres.pt -o centres.onnx --json").stdout)
    assert facts == {"output": "centres.onnx", "format": "onnx", "bytes": (tmp_path / "centres.onnx").stat().st_size}


def test_a_run_and_its_file_have_the_same_card_and_export(run, folder):
    key = load_model(folder / "model.pt").config.run_key
    assert run(f"export {key[:10]} -o of_run.py --db models.db").exit_code == 0
    assert run("export model.pt -o of_file.py").exit_code == 0
    assert (folder / "of_run.py").read_text() == (folder / "of_file.py").read_text()
    card = json.loads(run("card model.pt --json").stdout)
    assert card == json.loads(run(f"card {key[:10]} --db models.db --json").stdout)
    lines = dict(line.split("  ", 1) for line in run("card model.pt").stdout.splitlines())
    assert lines["run key"].strip() == key
    assert lines["test metrics"].strip() == f"accuracy {card['metrics']['test']['accuracy']:.6g}"


def test_a_card_lists_patches_with_their_labels_radii_and_certificates(run, folder):
    assert run("patch model.pt --x 0.0,1.0 --label lower --radius 0.25 -o patched.pt").exit_code == 0
    [record] = json.loads(run("card patched.pt --json").stdout)["patches"]
    certified, reach = (f"{record[name]:.4g}" for name in ("certified_radius", "reach"))
    lines = dict(line.split("  ", 1) for line in run("card patched.pt").stdout.splitlines())
    assert lines["patches"].strip() == "1"
    assert lines["patch 1"].strip() == f"0.0,1.0 -> lower, radius 0.25, certified {certified}, reach {reach}"
