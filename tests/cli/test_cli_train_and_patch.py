from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from engine_runs import replace_train
from typed import assert_one_line, files
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.data.loading import load_dataset
from idwbench.errors import PatchError
from idwbench.models import model_file
from idwbench.models.model_file import load_model
from idwbench.models.modules import PrototypeNetwork
from idwbench.runs.datasets import parse_dataset

TRAIN = ["train", "--dataset", "two_moons", "--epochs", "3", "--seed", "0"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a model and its database, trained once for all tests."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "results").mkdir()
    places = ["-o", str(folder / "model.pt"), "--db", str(folder / "results/idwbench.db")]
    result = CliRunner().invoke(app, [*TRAIN, "--prototypes", "6", *places])
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def model(trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path / "model.pt"


def wrong_label(model, point):
    saved = load_model(model)
    return 1 - int(saved.network.predict(saved.scaling.apply(np.array([point])))[0])


def test_train_prints_accuracies_stores_the_run_and_writes_the_model(run, tmp_path):
    result = run(*TRAIN, "--power", 4, "--epsilon", 0.01, "-o", "model.safetensors")
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["train", "test", "holdout", "model"]
    saved = load_model(tmp_path / "model.safetensors")
    assert saved.config.model.parameters == {"power": 4.0, "epsilon": 0.01}
    assert saved.config.protocol.model_dump(exclude={"optimizer", "schedule"}) == {
        "epochs": 3,
        "batch_size": 10,
        "learning_rate": 0.01,
    }
    assert {"results/idwbench.db", "model.safetensors"} <= files(tmp_path)


@pytest.mark.slow
def test_the_same_run_is_not_trained_twice_and_gives_the_same_bytes(run, model, tmp_path):
    again = run(*TRAIN, "--prototypes", 6, "-o", "again.pt")
    assert "--retrain trains it again" in again.stderr
    retrained = run(*TRAIN, "--prototypes", 6, "-o", "retrained.pt", "--retrain")
    assert retrained.exit_code == 0, retrained.output
    assert model.read_bytes() == (tmp_path / "again.pt").read_bytes() == (tmp_path / "retrained.pt").read_bytes()


def test_train_prints_facts_as_json(run):
    facts = json.loads(run(*TRAIN, "--json").stdout)
    assert facts["state"] == "complete"
    assert 0 < facts["test_accuracy"] <= 1


def test_train_takes_settings_of_the_data_set_and_of_any_method(run):
    result = run(
        *TRAIN, "--method", "scaled_dot", "--scale", "prototypes",
        "--dataset-option", "train_per_class=50", "--dataset-option", "noise=0.2", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_train_reads_the_users_own_table(run, tmp_path):
    generator = np.random.default_rng(0)
    rows = [f"{x:.3f},{y:.3f},{'hot' if x + y > 0 else 'cold'}" for x, y in generator.normal(size=(60, 2))]
    (tmp_path / "mine.csv").write_text("\n".join(["a,b,kind", *rows]))
    result = run("train", "--dataset", "mine.csv", "--dataset-option", "label=kind", "-o", "m.pt")
    assert result.exit_code == 0, result.output
    assert load_model(tmp_path / "m.pt").class_names == ("cold", "hot")
    assert "mine.csv" in run("report", "--table", "mine.csv").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "idv"], "did you mean 'idw'?"),
        (["--method", "gaussian", "--power", 2], "does not take 'power'"),
        (["--epsilon", -1], "epsilon"),
        (["--power", 0], "power"),
        (["--prototypes", 0], "prototypes"),
        (["--epochs", 0], "epochs"),
        (["--dataset-option", "nois=1"], "did you mean 'noise'?"),
        (["--dataset-option", "noise"], "KEY=VALUE"),
        (["--parameter", "breadth=3"], "--parameter breadth: unknown setting"),
        (["--parameter", "width=3"], "--parameter width: method 'idw' does not take 'width'"),
        (["--parameter", "width=["], "no value that can be read"),
        (["--parameter", "x=!!python/object/apply:os.system [ls]"], "no value that can be read"),
        (["--power", 2, "--parameter", "power=3"], "--power: is given twice"),
        (["--dataset-option", "noise=-1"], "--dataset-option noise"),
        (["--epochs", 10**20], "--epochs"),
        (["--prototypes", 10**20], "--prototypes"),
        (["--device", "banana"], "--device: 'banana'"),
        (["-o", "model.bin"], ".safetensors"),
        (["-o", "absent/model.pt"], "does not exist"),
        (["--dataset-option", "validation=0.2", "--validation", "0.1"], "--validation: is given twice"),
        (["--initialisation", "samples", "--prototypes", "201"], "--prototypes: expected at most 200"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(run, tmp_path, arguments, words):
    result = run(*TRAIN, *arguments)
    assert_one_line(result, 2, words)
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("two_mons", "unknown data set 'two_mons' (did you mean 'two_moons'?)"),
        ("MNIST", "unknown data set 'MNIST' (did you mean 'mnist'?)"),
        ("MNITS", "unknown data set 'MNITS' (did you mean 'mnist'?)"),
        ("csv", "'path' is missing: the data set csv is a file of your own (give its path, such as data.csv)"),
        ("text", "'path' is missing: the data set text is a file of your own (give its path, such as data.txt)"),
        ("data.txt", "data.txt is a text, which the kind prototypes does not support (give a .csv or .npz file"),
        ("data.xlsx", "unknown data set 'data.xlsx' (the name of a file ends in .npz, .csv, .tsv, .txt)"),
        ("/dev/zero", "unknown data set '/dev/zero' (the name of a file ends in .npz"),
    ],
)
def test_an_unknown_data_set_gets_the_nearest_name_or_what_is_expected(run, tmp_path, name, words):
    assert_one_line(run("train", "--dataset", name), 2, f"--dataset: {words}")
    assert files(tmp_path) == set()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npz"])
@pytest.mark.parametrize(("target", "found"), [("/dev/zero", "a pipe or a device"), ("/", "a folder")])
def test_data_that_is_no_regular_file_is_refused(run, tmp_path, suffix, target, found):
    link = tmp_path / f"link.{suffix}"
    link.symlink_to(target)
    assert_one_line(run("train", "--dataset", link), 1, f"{link}: is {found}, expected a file")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["--dataset-option", "train_per_class=2000000000"], 1, "--dataset-option train_per_class: the data set two_m"),
        (["--prototypes", "2000000000"], 2, "idw · 2000000000 prototypes · p=2, ε=0.001 needs 128.0 GB of memory, and"),
    ],
)
def test_sizes_that_do_not_fit_into_memory_are_refused_before_anything_is_stored(
    run, tmp_path, monkeypatch, arguments, exit_code, words
):
    monkeypatch.setattr("idwbench.machine.free_memory", lambda: 16 * 10**9)
    assert_one_line(run(*TRAIN, *arguments), exit_code, words, "16.0 GB are free")
    assert files(tmp_path) == set()


@pytest.mark.slow
def test_missing_archives_are_reported_in_one_line(run, tmp_path, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: (_ for _ in ()).throw(OSError("no network")))
    result = run("train", "--dataset", "mnist", "--data-dir", tmp_path / "data")
    assert_one_line(result, 1, "digits", "train-images-idx3-ubyte.gz")


def test_an_unavailable_device_is_refused_in_one_line(run):
    assert_one_line(run(*TRAIN, "--device", "nonsense"), 2, "--device: 'nonsense'")


def test_patch_writes_a_model_that_answers_as_requested(run, model, tmp_path):
    label = wrong_label(model, [0.0, 1.0])
    result = run("patch", model, "--x", "0.0,1.0", "--label", label, "-o", "patched.pt")
    assert result.exit_code == 0, result.output
    patched = load_model(tmp_path / "patched.pt")
    assert wrong_label(tmp_path / "patched.pt", [0.0, 1.0]) == 1 - label
    assert len(patched.network.keys) == 7
    assert [patch["label"] for patch in patched.patches] == [label]
    lines = result.stdout.splitlines()
    assert lines[1].startswith("eta ")
    assert "of 200 predictions changed" in lines[3]
    assert "of 40 predictions changed" in lines[4]


@pytest.mark.parametrize("criterion", [["--margin", 0.5], ["--logit-margin", 1], ["--confidence", 0.9]])
def test_patch_wins_as_clearly_as_requested(run, model, tmp_path, criterion):
    label = wrong_label(model, [0.5, 0.25])
    result = run("patch", model, "--x", "0.5,0.25", "--label", label, "-o", "patched.safetensors", "--json", *criterion)
    facts = json.loads(result.stdout)
    network = load_model(tmp_path / "patched.safetensors").network
    logits = network(torch.tensor([[0.5, 0.25]])).detach().double()
    assert float(logits.softmax(1)[0, label]) == pytest.approx(facts["confidence"], rel=1e-4)
    if criterion[0] == "--confidence":
        assert facts["confidence"] == pytest.approx(0.9, rel=1e-5)
    if criterion[0] == "--logit-margin":
        assert facts["logit_margin"] == pytest.approx(1, rel=1e-5)


def test_patch_takes_npy_files_references_and_class_names(run, model, tmp_path):
    np.save(tmp_path / "x.npy", np.array([0.0, 1.0]))
    name = ("upper", "lower")[wrong_label(model, [0.0, 1.0])]
    assert run("patch", model, "--x", "x.npy", "--label", name, "--dry-run").exit_code == 0
    reference = run("patch", model, "--x", "two_moons:test:3", "--label", 1, "--dry-run", "--json")
    assert json.loads(reference.stdout)["label"] == 1


def test_patch_counts_the_predictions_that_it_changed(run, model, tmp_path):
    data = load_dataset(parse_dataset("two_moons"))
    before = load_model(model).network
    label = 1 - int(before.predict(data.test.inputs[3:4])[0])
    arguments = ["patch", model, "--x", "two_moons:test:3", "--label", label, "--logit-margin", 50]
    facts = json.loads(run(*arguments, "-o", "patched.pt", "--json").stdout)
    after = load_model(tmp_path / "patched.pt").network
    for name, split in {"train": data.train, "test": data.test}.items():
        old, new = before.predict(split.inputs), after.predict(split.inputs)
        effect = facts["effects"][name]
        assert effect["changed"] == (old != new).sum() >= 1
        assert effect["accuracy_before"] == pytest.approx((old == split.labels).mean())
        assert effect["accuracy_after"] == pytest.approx((new == split.labels).mean())


def test_a_margin_that_had_to_be_raised_is_reported(run, model, monkeypatch):
    label = wrong_label(model, [0.0, 1.0])

    def check(network, patch):
        if patch.criterion_used.amount < 0.05:
            raise PatchError("too little")

    monkeypatch.setattr("idwbench.models.patching.check_patch", check)
    result = run("patch", model, "--x", "0,1", "--label", label, "--dry-run", "--json")
    assert result.stderr == "warning: margin raised from 0.001 to 0.1: float32 cannot hold less\n"
    facts = json.loads(result.stdout)
    assert facts["criterion"] == {"kind": "margin", "amount": 0.001}
    assert facts["criterion_used"] == {"kind": "margin", "amount": pytest.approx(0.1)}


def test_a_model_that_does_not_meet_the_criterion_when_read_back_is_not_written(run, model, tmp_path, monkeypatch):
    label = wrong_label(model, [0.0, 1.0])
    original = model_file.model_content

    def forgetful(saved, suffix):
        network = load_model(model).network if saved.patches else saved.network
        return original(dataclasses.replace(saved, network=network), suffix)

    monkeypatch.setattr(model_file, "model_content", forgetful)
    before = files(tmp_path)
    result = run("patch", model, "--x", "0,1", "--label", label, "-o", "patched.pt")
    assert_one_line(result, 2, "float32 cannot hold a patch that meets")
    assert files(tmp_path) == before


def test_patch_predicts_in_one_thread(run, model, monkeypatch):
    seen = []
    original = PrototypeNetwork.predict

    def predict(self, inputs):
        seen.append(torch.get_num_threads())
        return original(self, inputs)

    label = wrong_label(model, [0.0, 1.0])
    monkeypatch.setattr(PrototypeNetwork, "predict", predict)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run("patch", model, "--x", "0,1", "--label", label, "--dry-run")
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_right_answer_is_left_alone(run, model, tmp_path):
    label = 1 - wrong_label(model, [0.0, 1.0])
    result = run("patch", model, "--x", "0.0,1.0", "--label", label, "-o", "patched.pt")
    assert result.exit_code == 0
    assert "already right" in result.stdout
    assert not (tmp_path / "patched.pt").exists()


def test_an_existing_file_is_replaced_only_with_force(run, model, tmp_path):
    before = model.read_bytes()
    label = wrong_label(model, [0.0, 1.0])
    arguments = ["patch", model, "--x", "0.0,1.0", "--label", label, "-o", model]
    assert_one_line(run(*arguments), 2, "exists already (--force replaces it)")
    assert model.read_bytes() == before
    assert run(*arguments, "--force").exit_code == 0
    assert model.read_bytes() != before


# Stands for the label that the model does not give to (0, 1).
WRONG = "wrong"

BROKEN_PATCHES = {
    "absent model": (["absent.pt", "--x", "0,1", "--label", 1], 2, "absent.pt: no such file"),
    "not a model": (["notes.pt", "--x", "0,1", "--label", 1], 2, "notes.pt: not an idwbench model"),
    "folder": ([".", "--x", "0,1", "--label", 1], 2, "is a folder"),
    "too large": (["model.pt", "--x", "1e300,0", "--label", 1], 2, "too large for float32"),
    "not idw": (["other.pt", "--x", "0,1", "--label", 1], 2, "only 'idw' models can be patched"),
    "too few numbers": (["model.pt", "--x", "0", "--label", 1], 2, "expected 2 numbers, got 1"),
    "no numbers": (["model.pt", "--x", "zero,one", "--label", 1], 2, "'zero' is not a finite number"),
    "infinite": (["model.pt", "--x", "0,inf", "--label", 1], 2, "'inf' is not a finite number"),
    "label out of range": (["model.pt", "--x", "0,1", "--label", 2], 2, "expected 0 to 1, got 2"),
    "unknown class": (["model.pt", "--x", "0,1", "--label", "lowr"], 2, "did you mean 'lower'?"),
    "absent array": (["model.pt", "--x", "absent.npy", "--label", 1], 2, "absent.npy: no such file"),
    "no array": (["model.pt", "--x", "notes.npy", "--label", 1], 2, "notes.npy: not an .npy file"),
    "image for points": (["model.pt", "--x", "picture.png", "--label", 1], 2, "not trained on images"),
    "unknown split": (["model.pt", "--x", "two_moons:tset:1", "--label", 1], 2, "did you mean 'test'?"),
    "index out of range": (["model.pt", "--x", "two_moons:test:40", "--label", 1], 2, "inputs 0 to 39"),
    "two criteria": (
        ["model.pt", "--x", "0,1", "--label", 1, "--margin", 1, "--confidence", 0.9],
        2,
        "--confidence: cannot be combined with margin",
    ),
    "impossible confidence": (["model.pt", "--x", "0,1", "--label", 1, "--confidence", 1], 2, "between 0 and 1"),
    "too small confidence": (
        ["model.pt", "--x", "0,1", "--label", WRONG, "--confidence", 0.5],
        2,
        "would not win with probability 0.5, it needs above 0.5",
    ),
    "too large margin": (
        ["model.pt", "--x", "0,1", "--label", WRONG, "--margin", "1e300"],
        2,
        "float32 cannot hold the value",
    ),
    "too large logit margin": (
        ["model.pt", "--x", "0,1", "--label", WRONG, "--logit-margin", "1e300"],
        2,
        "float32 cannot hold the value",
    ),
    "wrong ending": (["model.pt", "--x", "0,1", "--label", 1, "-o", "out.onnx"], 2, ".safetensors"),
}


@pytest.mark.parametrize("case", BROKEN_PATCHES)
def test_a_broken_patch_call_is_refused_in_one_line_and_writes_nothing(run, model, tmp_path, case):
    arguments, code, words = BROKEN_PATCHES[case]
    for name in ("notes.pt", "notes.npy", "picture.png"):
        (tmp_path / name).write_text("not what the ending says")
    if case == "not idw":
        run(*TRAIN, "--method", "inv_dist", "-o", "other.pt")
    if WRONG in arguments:
        arguments = [wrong_label(model, [0.0, 1.0]) if word == WRONG else word for word in arguments]
    before = files(tmp_path)
    output = [] if "-o" in arguments else ["-o", "patched.pt"]
    assert_one_line(run("patch", *arguments, *output), code, words)
    assert files(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("error", [RuntimeError("out of luck"), KeyboardInterrupt()])
def test_a_retraining_that_fails_or_is_interrupted_keeps_the_result_it_had(run, model, monkeypatch, error):
    def fail(*arguments):
        raise error

    before = run(*TRAIN, "--prototypes", 6, "--json").stdout
    with monkeypatch.context() as patched:
        replace_train(patched, "fused", fail)
        result = run(*TRAIN, "--prototypes", 6, "--retrain")
        assert result.exit_code in (1, 130)
        assert "Traceback" not in result.stderr
    assert run(*TRAIN, "--prototypes", 6, "--json").stdout == before
