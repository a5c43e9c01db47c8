"""What cannot be done is refused in one line, with an exit code, and nothing is written."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import replace

import pytest
from recorded_mlp import load_made, recorded_config
from typed import assert_one_line, files, typed, wrong_label

from idwbench.data.loading import load_dataset
from idwbench.figures.stored import FIGURES
from idwbench.models.model_file import load_model
from idwbench.runs.config import run_config

NAMES = ", ".join(sorted(FIGURES))
TRAIN = "train --dataset two_moons --epochs 1"
IMPORT = "import three.npz -o new.pt"
PATCH = "patch model.pt -o new.pt --label 1 --x"
POINT = "patch model.pt --x 0,1 --label"
X = "--x sequence:test:4 --db models.db"
RUN, PLAIN = recorded_config().run_key, run_config("two_moons", kind="mlp").run_key

# Lines of: command; exit code; words of the message. WRONG is the label that the model does not give to (0, 1).
USAGE = [
    ("trian", 2, "Did you mean 'train'?"),
    ("TRAIN", 2, "No such command 'TRAIN'. Did you mean 'train'?"),
    ("frobnicate", 2, "No such command 'frobnicate'. Expected one of: card, claims,"),
    ("runs frobnicate", 2, "No such command 'frobnicate'. Expected one of: diff, export, list,"),
    ("train", 2, "--dataset"),
    ("train --dataset two_moons --protypes 3", 2, "--prototypes"),
    ("train --dataset two_moons --engine FUSED", 2, "'torch'. Did you mean 'fused'?"),
    ("report --figure moons", 2, "No such option: --figure. It is a command: idwbench figure NAME"),
    ("report --leaderboard small --top 0", 2, "--top"),
    ("claims --table mnist", 2, "No such option: --table"),
    ("page new.html --json", 2, "No such option"),
    ("runs show", 2, "run"),
    ("runs list method=idw", 2, "method=idw"),
]
TRAININGS = [
    (f"{TRAIN} --method idv", 2, "did you mean 'idw'?"),
    (f"{TRAIN} --method gaussian --power 2", 2, "does not take 'power'"),
    (f"{TRAIN} --initialisation samples --prototypes 201", 2, "--prototypes: expected at most 200"),
    (f"{TRAIN} --dataset-option nois=1", 2, "did you mean 'noise'?"),
    (f"{TRAIN} --dataset-option noise", 2, "KEY=VALUE"),
    (f"{TRAIN} --dataset-option validation=0.2 --validation 0.1", 2, "--validation: is given twice"),
    (f"{TRAIN} --parameter breadth=3", 2, "--parameter breadth: unknown setting"),
    (f"{TRAIN} --parameter width=[", 2, "no value that can be read"),
    (f"{TRAIN} --parameter 'x=!!python/object/apply:os.system [ls]'", 2, "no value that can be read"),
    (f"{TRAIN} --power 2 --parameter power=3", 2, "--power: is given twice"),
    (f"{TRAIN} --device banana", 2, "--device: 'banana'"),
    (f"{TRAIN} -o model.bin", 2, ".safetensors"),
    (f"{TRAIN} -o model.pt", 2, "model.pt: exists already (--force replaces it)"),
    ("train --dataset two_mons", 2, "--dataset: unknown data set 'two_mons' (did you mean 'two_moons'?)"),
    ("train --dataset data.txt", 2, "--dataset: data.txt is a text, which the kind prototypes does not support"),
    ("train --dataset zero.csv", 1, "zero.csv: is a pipe or a device, expected a file"),
    ("train --dataset root.npz", 1, "root.npz: is a folder, expected a file"),
]
MODELS = [
    ("export model.pt -o model", 2, "model: expected a name ending in .onnx, .py, .skops"),
    ("export three.npz -o new.py", 2, "'three.npz' is neither a model file (.pt, .safetensors) nor"),
    ("export absent.pt -o new.py", 2, "absent.pt: no such file"),
    ("export model.pt -o no/new.py", 2, "no/new.py: the folder no does not exist"),
    ("card zz", 2, "'zz' is neither a model file"),
    ("import three.npz -o new.txt", 2, "expected a name ending in .pt or .safetensors"),
    (f"{IMPORT} --dataset-option noise=1", 2, "needs a data set"),
    (f"{IMPORT} --power 1 --parameter power=2", 2, "given twice"),
    ("patch model.pt -o new.pt", 2, "give --x and --label, --file, --undo or --list"),
    ("patch model.pt -o new.pt --x 0,1", 2, "--label is missing"),
    ("patch model.pt -o new.pt --label 1", 2, "--x is missing"),
    ("patch model.pt --x 0,1 --label 1", 2, "give -o FILE to write the patched model, or --dry-run"),
    (f"{POINT} 1 --file good.csv -o new.pt", 2, "--file: cannot be combined with --x"),
    ("patch 2.pt --list --undo 1", 2, "--list: cannot be combined with --undo"),
    ("patch 2.pt --list -o new.pt", 2, "--output: cannot be combined with --list"),
    ("patch 2.pt --undo 1 --margin 1 -o new.pt", 2, "--margin: cannot be combined with --undo"),
    ("patch 2.pt --undo 99 -o new.pt", 2, "--undo: no patch has the number 99 (expected 1 to 2)"),
    ("patch model.pt --file bad.csv -o new.pt", 2, "bad.csv:3: x: 'zero' is not a finite number"),
    ("patch model.pt --file conflict.csv -o new.pt", 2, "different labels for line 2 and line 4 (distance 0)"),
    ("patch 1.pt --file both.csv -o new.pt", 2, "different labels for patch 1 and line"),
    ("patch notes.pt --x 0,1 --label 1 -o new.pt", 2, "notes.pt: not an idwbench model"),
    ("patch other.pt --x 0,1 --label b -o new.pt", 2, "only 'idw' models can be patched"),
    ("patch damaged.pt --list", 2, "damaged.pt: 6 learned prototypes and 2 patches"),
    (f"{PATCH} picture.png", 2, "not trained on images"),
    (f"{PATCH} two_moons:tset:1", 2, "did you mean 'test'?"),
    (f"{PATCH} 0,1 --margin 1 --confidence 0.9", 2, "--confidence: cannot be combined with margin"),
    (f"{POINT} lowr -o new.pt", 2, "did you mean 'lower'?"),
    (f"{POINT} 1 -o out.onnx", 2, ".safetensors"),
    (f"{POINT} 1 -o model.pt", 2, "model.pt: exists already (--force replaces it)"),
    (f"{POINT} WRONG --margin 1e300 -o new.pt", 2, "float32 cannot hold the value"),
]
EXPLANATIONS = [
    (f"explain {RUN} --db models.db", 2, "give --x, or --prompt for a language model"),
    (f"explain {RUN} {X} --prompt a", 2, "--x: cannot be combined with --prompt"),
    (f"explain {RUN} --prompt a --mask label=1 --db models.db", 2, "--mask: cannot be combined with --prompt"),
    (f"explain {RUN} --prompt a -o a.png --db models.db", 2, "--output: cannot be combined with --prompt"),
    ("explain model.pt --prompt a", 2, "--prompt: a model file takes no prompt"),
    (f"explain {RUN} --prompt a --db models.db", 2, "--prompt: only a run of kind lstm_lm reads one, not mlp"),
    (f"explain {RUN} {X} --top 0", 2, "--top"),
    (f"explain {RUN} {X} -o why.txt", 2, "cannot write a figure as '.txt'"),
    (f"explain {PLAIN} {X}", 2, "the run has no memory: its training was not recorded"),
    (f"explain xyz {X}", 2, "'xyz' is neither a model file (.pt, .safetensors) nor the key of a stored run"),
    (f"explain abcdef0 {X}", 1, "no run has a key that begins with 'abcdef0'"),
]
REPORTS = [
    ("report --table smal", 2, "did you mean 'small'?"),
    ("report --table small --prototypes 99", 2, "no runs"),
    ("report --table small --metric rmse", 2, "all 15 complete runs lack the metric 'rmse'"),
    ("report --leaderboard smal", 2, "--leaderboard: nothing is called 'smal' (did you mean 'small'?)"),
    ("report --leaderboard small --best-over epsilon", 2, "--best-over: 15 of 15 complete runs have no validation"),
    ("report --format csv", 2, "--format: only with --table or --leaderboard"),
    ("report -o new.md", 2, "--output: only with --table"),
    ("report --measure", 2, "--measure: only with --table or --leaderboard"),
    ("report --leaderboard small --table small", 2, "--table: cannot be combined with --leaderboard"),
    ("report --leaderboard small --by-dataset", 2, "--by-dataset: only with --table"),
    ("report --table small --top 3", 2, "--top: only with --leaderboard"),
    ("report --table small --best-over epsilon", 2, "--best-over: only with --leaderboard"),
    ("report --table small --split train", 2, "--split: only with --leaderboard or --by-dataset"),
    ("report --table small --by-dataset --interval", 2, "--interval: cannot be combined with --by-dataset"),
    ("report --table small --format csv --json", 2, "--json: --format is 'csv'"),
    ("report --table small --json -o new.json", 2, "--json: prints to stdout"),
    ("report --table small --format csv -o new.md", 2, "--output: .md is not the suffix of the format csv"),
    ("report --table small -o new.html", 2, "--output: the ending .html does not name a format"),
    ("report --leaderboard small -o new", 2, "--output: a name without an ending does not name a format"),
    ("report --table small --db none.db", 1, "none.db: does not exist"),
    ("report --table small --measure --db none.db", 1, "none.db"),
    ("claims --json -o claims.txt", 2, "--json: prints to stdout (--format json writes it to the file)"),
    ("claims -o notes.txt", 2, "exists already (--force replaces it)"),
    ("claims --db none.db", 1, "none.db"),
    ("page new.html --table smal", 2, "nothing is called 'smal'"),
    ("page new.html --table small --method iwd", 2, "no run of small has the method 'iwd'"),
    ("page notes.txt", 2, "exists already"),
    ("figure", 2, "missing argument 'NAME': a figure, see --list"),
    ("figure nope", 2, f"unknown figure 'nope' (expected one of: {NAMES})"),
    ("figure keys", 2, "image"),
    ("figure moons -o a.jpg", 2, ".jpg"),
    ("figure moons --table smal", 2, "--table: nothing is called 'smal' (did you mean 'small'?)"),
    ("figure weights --method idw", 2, "--method: the figure 'weights' shows no runs"),
    ("figure weights --show -o new.png", 2, "--show: needs a window"),
]
RUNS = [
    ("runs list --where 'methd == 1'", 2, "--where: no column is called 'methd' (did you mean 'method'?)"),
    ("runs list --where method=idw", 2, "--where: 'method=idw' is no expression (use =="),
    ("runs list --where \"__import__('os')\"", 2, "got '__import__('os')'"),
    ("runs list --sort sed", 2, "--sort: no column is called 'sed' (did you mean 'seed'?)"),
    ("runs list --state fialed", 2, "--state: no state is called 'fialed' (did you mean 'failed'?)"),
    ("runs list --sweep smal", 1, "did you mean 'small'?"),
    ("runs list --db none.db", 1, "does not exist"),
    ("runs show zz", 1, "no run has a key that begins with 'zz'"),
    ("runs watch lnog --once", 1, "no sweep 'lnog' is stored"),
    ("runs replay zz", 1, "zz"),
    ("runs tag zz best", 1, "zz"),
    ("runs rm", 2, "give keys of runs, or conditions"),
    ("runs rm --state complete", 2, "removing 15 runs needs a confirmation (--yes)"),
    ("runs rm zz --yes", 1, "zz"),
    ("runs rm zz --where 'seed == 1' --yes", 2, "either keys or conditions"),
    ("runs export -o new.xlsx", 2, "does not name a format"),
    ("runs export -o new.csv --format parquet", 2, "ending in .parquet"),
    ("runs export -o new.pt", 2, "idwbench export writes models"),
    ("runs export -o missing/new.csv", 2, "missing"),
]
SWEEPS = [
    ("sweep", 2, "missing argument 'FILE'"),
    ("sweep absent.yaml", 2, "absent.yaml: no such file"),
    ("sweep small.yaml --retry some", 2, "some"),
    ("sweep small.yaml --max-failures 0", 2, "--max-failures"),
    ("sweep small.yaml --max-failures 2 --fail-fast", 2, "--max-failures: cannot be combined with --fail-fast"),
    ("sweep small.yaml --dry-run --db notes.txt", 1, "notes.txt"),
    ("sweep two_moons --list", 2, "FILE: cannot be combined with --list"),
    ("sweep --list --dry-run", 2, "--dry-run: cannot be combined with --list"),
    ("sweep --list --retry all", 2, "--retry: cannot be combined with --list"),
    ("sweep small.yaml --db postgresql://localhost:abc/x", 1, "is not a valid URL"),
    ("sweep small.yaml --db postgresql://localhost:1/x?connect_timeout=5", 1, "Connection refused"),
    ("report --table small --db postgresql://localhost/x?foo=1", 1, 'invalid connection option "foo"'),
    ("report --table small --db 'a\0b.db'", 1, "the name of the database has a NUL character"),
    ("sweep letters.yaml", 2, "letters.yaml:2:29: dataset.path: "),
]
REFUSED = [*USAGE, *TRAININGS, *MODELS, *EXPLANATIONS, *REPORTS, *RUNS, *SWEEPS]
TABLES = {
    "good": '"0,1",1',
    "bad": '"0,1",1\n"zero,1",0',
    "conflict": '"0,1",lower\n"1,0",lower\n"0,1",upper',
    "both": '"0,1",lower\n"0,1",upper',
}


@pytest.fixture(scope="module")
def place(bench, tmp_path_factory):
    """A copy of the bench with files of wrong content."""
    folder = tmp_path_factory.mktemp("refused")
    shutil.copytree(bench, folder, dirs_exist_ok=True)
    for name in ("notes.pt", "notes.npy", "notes.txt", "notes.png", "picture.png"):
        (folder / name).write_text("not what the ending says, and long enough to be a database or a table of numbers")
    for name, rows in TABLES.items():
        (folder / f"{name}.csv").write_text(f"x,label\n{rows}\n")
    letters = (
        "name: letters\ndataset: {name: text, path: own.txt}\nseeds: 1\ngrid: {kind: transformer_lm, method: idw}\n"
    )
    (folder / "letters.yaml").write_text(letters)
    (folder / "zero.csv").symlink_to("/dev/zero")
    (folder / "root.npz").symlink_to("/")
    model = load_model(folder / "1.pt")
    replace(model, patches=model.patches * 2).save(folder / "damaged.pt")
    return folder


@pytest.fixture
def refused(place, monkeypatch):
    """Type a command that is refused in one line, and see that nothing was written."""
    monkeypatch.chdir(place)
    for name in ("IDWBENCH_DB", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", _load)

    def check(command, code, words):
        before = contents(place)
        first, *others = shlex.split(command)
        assert_one_line(typed(first, *others), code, words)
        assert contents(place) == before

    return check


def _load(config, data_dir=None):
    return load_made(config, data_dir) if config.name == "sequence" else load_dataset(config, data_dir)


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files(folder) if (folder / name).suffix in (".db", ".pt")}, (
        files(folder)
    )


@pytest.mark.parametrize(("command", "code", "words"), REFUSED, ids=[command for command, *_ in REFUSED])
def test_what_cannot_be_done_is_one_line_and_nothing_is_written(refused, place, command, code, words):
    refused(command.replace("WRONG", str(wrong_label(place / "model.pt", "0,1"))), code, words)


SIZES = {
    "--dataset-option train_per_class=2000000000": (
        1,
        "--dataset-option train_per_class: the data set two_m",
    ),
    "--prototypes 2000000000": (2, "idw · 2000000000 prototypes · p=2, ε=0.001 needs 128.0 GB of memory, and 16.0 GB"),
}


@pytest.mark.parametrize("size", SIZES)
def test_sizes_that_do_not_fit_into_memory_are_refused_before_anything_is_stored(refused, monkeypatch, size):
    monkeypatch.setattr("idwbench.machine.free_memory", lambda: 16 * 10**9)
    refused(f"{TRAIN} {size}", *SIZES[size])


@pytest.mark.parametrize("package", ["onnx", "skops"])
def test_a_missing_package_is_one_line_that_names_its_extra(refused, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    words = f"needs the Python package '{package}' (pip install 'idwbench[{package}]')"
    refused(f"export model.pt -o new.{package}", 2, words)


def test_archives_that_cannot_be_fetched_are_named(run, tmp_path, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: (_ for _ in ()).throw(OSError("no network")))
    result = run("train --dataset mnist --data-dir", tmp_path / "data")
    assert_one_line(result, 1, "digits", "train-images-idx3-ubyte.gz")


LONG = "a" * 5_000


@pytest.mark.parametrize("argument", [[LONG], ["two_moons", "--engine", LONG], ["two_moons", f"--{LONG}"]])
def test_a_long_argument_is_not_echoed_whole(run, argument):
    result = run("sweep", *argument)
    assert result.exit_code == 2
    assert "aaaa … aaaa" in result.stderr and len(result.stderr) < 2_500


BROKEN = {
    "unknown key": ("grid:\n  methd: idw\n  prototypes: 2\n", "4:3: grid.methd: unknown key (did you mean 'method'?)"),
    "unknown method": ("grid: {method: idv, prototypes: 2}\n", "(did you mean 'idw'?)"),
    "syntax": ("grid: {method: idw\n", "broken.yaml:"),
    "bad seeds": ("seeds: -3\ngrid: {method: idw, prototypes: 2}\n", "seeds"),
    "code": ("grid: !!python/object/apply:os.system ['touch hacked']\n", "broken.yaml:3:"),
    "one long word": (f"grid: {'a' * 300_000}\n", "3:7: grid: expected"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_sweep_file_is_refused_in_one_line_before_anything_runs(run, tmp_path, case):
    text, expected = BROKEN[case]
    seeds = "" if "seeds" in text else "seeds: 2\n"
    (tmp_path / "broken.yaml").write_text(f"name: broken\ndataset: two_moons\n{text}{seeds}")
    result = run("sweep broken.yaml")
    assert_one_line(result, 2, "broken.yaml", expected)
    assert len(result.stderr) < 1_500
    assert files(tmp_path) == {"broken.yaml"}
