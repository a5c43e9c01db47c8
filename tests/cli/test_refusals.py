"""What cannot be done is refused in one line, with an exit code, and nothing is written."""

import shlex
import shutil
import sys

import pytest
from recorded_mlp import recorded_config
from typed import assert_one_line, files, typed

TRAIN = "train --dataset two_moons --epochs 1"
RUN = f"explain {recorded_config().run_key} --db models.db --x sequence:test:4"
PATCH = "patch model.pt -o new.pt --label 1 --x"

# Words of the message by command: of wrong input, with exit code 2, and of failures, with exit code 1.
# What the library refuses is tested there; here is what the command line does, and that it passes on what others say.
WRONG = {
    "TRAIN": "No such command 'TRAIN'. Did you mean 'train'?",
    "frobnicate": "No such command 'frobnicate'. Expected one of: card, claims,",
    "runs frobnicate": "No such command 'frobnicate'. Expected one of: diff, export, list,",
    "train": "--dataset",
    "train --dataset two_moons --protypes 3": "--prototypes",
    "train --dataset two_moons --engine FUSED": "'torch'. Did you mean 'fused'?",
    "report --figure moons": "No such option: --figure. It is a command: idwbench figure NAME",
    "train --dataset two_mons": "--dataset: unknown data set 'two_mons' (did you mean 'two_moons'?)",
    f"{TRAIN} --initialisation samples --prototypes 201": "--prototypes: expected at most 200",
    f"{TRAIN} --dataset-option noise": "KEY=VALUE",
    f"{TRAIN} --dataset-option validation=0.2 --validation 0.1": "--validation: is given twice",
    f"{TRAIN} --parameter breadth=3": "--parameter breadth: unknown setting",
    f"{TRAIN} --parameter 'x=!!python/object/apply:os.system [ls]'": "no value that can be read",
    f"{TRAIN} --power 2 --parameter power=3": "--power: is given twice",
    f"{TRAIN} -o model.bin": ".safetensors",
    f"{TRAIN} -o model.pt": "model.pt: exists already (--force replaces it)",
    "card zz": "'zz' is neither a model file",
    "import three.npz -o new.pt --dataset-option noise=1": "needs a data set",
    "patch model.pt -o new.pt": "give --x and --label, --file, --undo or --list",
    "patch model.pt -o new.pt --x 0,1": "--label is missing",
    "patch model.pt -o new.pt --label 1": "--x is missing",
    "patch model.pt --x 0,1 --label 1": "give -o FILE to write the patched model, or --dry-run",
    f"{PATCH} 0,1 --file good.csv": "--file: cannot be combined with --x",
    "patch 2.pt --list --undo 1": "--list: cannot be combined with --undo",
    "patch 2.pt --list -o new.pt": "--output: cannot be combined with --list",
    "patch 2.pt --undo 1 --margin 1 -o new.pt": "--margin: cannot be combined with --undo",
    "patch model.pt --file bad.csv -o new.pt": "bad.csv:3: x: 'zero' is not a finite number",
    f"{PATCH} picture.png": "not trained on images",
    f"{PATCH} two_moons:tset:1": "did you mean 'test'?",
    f"{PATCH} 0,1 --margin 1 --confidence 0.9": "--confidence: cannot be combined with margin",
    "patch notes.pt --x 0,1 --label 1 -o new.pt": "notes.pt: not an idwbench model",
    "patch 0123ab --x 0,1 --label 1 -o new.pt": "a stored run becomes a file by 'idwbench export'",
    "explain model.pt": "give --x, or --prompt for a language model",
    f"{RUN} --prompt a": "--x: cannot be combined with --prompt",
    "explain model.pt --prompt a": "--prompt: a model file takes no prompt",
    "report --table smal": "--table: nothing is called 'smal' (did you mean 'small'?)",
    "report --leaderboard small --best-over 'epsilon, power'": "--best-over: 15 of 15 complete runs have no validation",
    "report --format csv": "--format: only with --table or --leaderboard",
    "report --leaderboard small --table small": "--table: cannot be combined with --leaderboard",
    "report --leaderboard small --by-dataset": "--by-dataset: only with --table",
    "report --table small --top 3": "--top: only with --leaderboard",
    "report --table small --split train": "--split: only with --leaderboard or --by-dataset",
    "report --table small --by-dataset --interval": "--interval: cannot be combined with --by-dataset",
    "report --table small --format csv --json": "--json: --format is 'csv'",
    "report --table small --json -o new.json": "--json: prints to stdout (--format json writes it to the file)",
    "report --table small --format csv -o new.md": "--output: .md is not the suffix of the format csv",
    "report --table small -o new.html": "--output: the ending .html does not name a format",
    "report --leaderboard small -o new": "--output: a name without an ending does not name a format",
    "claims -o notes.txt": "exists already (--force replaces it)",
    "page new.html --table small --method iwd": "no run of small has the method 'iwd'",
    "figure": "missing argument 'NAME': a figure, see --list",
    "figure weights --method idw": "--method: the figure 'weights' shows no runs",
    "figure weights --show -o new.png": "--show: needs a window",
    "runs list --state fialed": "--state: no state is called 'fialed' (did you mean 'failed'?)",
    "runs rm": "give keys of runs, or conditions",
    "runs rm --state complete": "removing 15 runs needs a confirmation (--yes)",
    "runs export -o new.csv --format parquet": "ending in .parquet",
    "runs export -o new.pt": "idwbench export writes models",
    "sweep": "missing argument 'FILE'",
    "sweep small.yaml --max-failures 2 --fail-fast": "--max-failures: cannot be combined with --fail-fast",
    "sweep two_moons --list": "FILE: cannot be combined with --list",
    "sweep --list --retry all": "--retry: cannot be combined with --list",
    "sweep broken.yaml": "broken.yaml:3:8: grid.methd: unknown key (did you mean 'method'?)",
    "sweep long.yaml": "long.yaml:3:7: grid: expected",
}
FAILED = {
    "train --dataset zero.csv": "zero.csv: is a pipe or a device, expected a file",
    "report --table small --db none.db": "none.db: does not exist",
    "sweep small.yaml --db postgresql://localhost:1/x?connect_timeout=5": "Connection refused",
}
REFUSED = [*((command, 2, words) for command, words in WRONG.items()), *((c, 1, words) for c, words in FAILED.items())]
GRIDS = {"broken": "{methd: idw, prototypes: 2}", "long": "a" * 300_000}


@pytest.fixture(scope="module")
def place(bench, tmp_path_factory):
    """A copy of the bench with files of wrong content."""
    folder = tmp_path_factory.mktemp("refused")
    shutil.copytree(bench, folder, dirs_exist_ok=True)
    for name in ("notes.pt", "notes.txt", "picture.png"):
        (folder / name).write_text("not what the ending says, and long enough to be a database or a table of numbers")
    for name, grid in GRIDS.items():
        (folder / f"{name}.yaml").write_text(f"name: {name}\ndataset: two_moons\ngrid: {grid}\nseeds: 2\n")
    (folder / "bad.csv").write_text('x,label\n"0,1",1\n"zero,1",0\n')
    (folder / "zero.csv").symlink_to("/dev/zero")
    return folder


@pytest.fixture
def refused(place, monkeypatch):
    """Type a command that is refused in one short line, and see that nothing was written."""
    monkeypatch.chdir(place)
    for name in ("IDWBENCH_DB", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    def contents():
        return {name: (place / name).stat().st_mtime_ns for name in files(place)}

    def check(command, code, words):
        before = contents()
        first, *others = shlex.split(command)
        result = typed(first, *others)
        assert_one_line(result, code, words)
        assert len(result.stderr) < 1_500
        assert contents() == before

    return check


@pytest.mark.parametrize(("command", "code", "words"), REFUSED, ids=[command for command, *_ in REFUSED])
def test_what_cannot_be_done_is_one_line_and_nothing_is_written(refused, command, code, words):
    refused(command, code, words)


def test_sizes_that_do_not_fit_into_memory_are_refused_before_anything_is_stored(refused, monkeypatch):
    monkeypatch.setattr("idwbench.machine.free_memory", lambda: 16 * 10**9)
    words = "idw · 2000000000 prototypes · p=2, ε=0.001 needs 128.0 GB of memory, and 16.0 GB"
    refused(f"{TRAIN} --prototypes 2000000000", 2, words)
    option = "--dataset-option train_per_class"
    refused(f"{TRAIN} {option}=2000000000", 1, f"{option}: the data set two_moons needs")


@pytest.mark.parametrize("package", ["onnx", "skops"])
def test_a_missing_package_is_one_line_that_names_its_extra(refused, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    words = f"needs the Python package '{package}' (pip install 'idwbench[{package}]')"
    refused(f"export model.pt -o new.{package}", 2, words)


def test_a_long_argument_is_not_echoed_whole(run):
    long = "a" * 5_000
    for arguments in ([long], ["two_moons", "--engine", long], ["two_moons", f"--{long}"]):
        result = run("sweep", *arguments)
        assert result.exit_code == 2
        assert "aaaa … aaaa" in result.stderr and len(result.stderr) < 2_500


def test_archives_that_cannot_be_fetched_are_named(run, tmp_path, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: (_ for _ in ()).throw(OSError("no network")))
    result = run("train --dataset mnist --data-dir", tmp_path / "data")
    assert_one_line(result, 1, "digits", "train-images-idx3-ubyte.gz")
