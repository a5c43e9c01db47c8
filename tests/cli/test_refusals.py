"""What cannot be done is refused in one line, with an exit code, and nothing is written."""

import shlex
import shutil
import sys

import pytest
from case_tables import case_table
from recorded_mlp import recorded_config
from sweep_specs import sweep_text
from typed import assert_one_line, files, typed

TRAIN = "train --dataset two_moons --epochs 1"
REFUSED = [
    (command, code, words) for code, rows in case_table("wrong_commands").items() for command, words in rows.items()
]


@pytest.fixture(scope="module")
def place(bench, tmp_path_factory):
    """A copy of the bench with files of wrong content."""
    folder = tmp_path_factory.mktemp("refused")
    shutil.copytree(bench, folder, dirs_exist_ok=True)
    for name in ("notes.pt", "notes.txt", "picture.png"):
        (folder / name).write_text("not what the ending says, and long enough to be a database or a table of numbers")
    (folder / "long.yaml").write_text(f"name: long\ndataset: two_moons\ngrid: {'a' * 300_000}\nseeds: 2\n")
    (folder / "empty.db").touch()
    data, sampler = "{name: two_moons, validation: 9}", "{optuna: random, trials: 2, objective: validation_accuracy}"
    (folder / "search.yaml").write_text(sweep_text(data, "{method: idw, prototypes: [2, 3]}", sampler=sampler))
    (folder / "binary.yaml").write_bytes(b"name: x\nseeds: \xff\xfe\n")
    (folder / "bad.csv").write_text('x,label\n"0,1",1\n"zero,1",0\n')
    (folder / "dated.csv").write_text("when,height,kind\n" + "2020-01-01,1.5,oak\n2020-01-02,2.5,elm\n" * 20)
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
    refused(command.replace("RUN", recorded_config().run_key), code, words)


def test_sizes_that_do_not_fit_into_memory_are_refused_before_anything_is_stored(refused, monkeypatch):
    monkeypatch.setattr("idwbench.machine.free_memory", lambda: 16 * 10**9)
    words = "idw · 2000000000 prototypes · p=2, ε=0.001 needs 128.0 GB of memory, and 16.0 GB"
    refused(f"{TRAIN} --prototypes 2000000000", 2, words)
    option = "--dataset-option train_per_class"
    refused(f"{TRAIN} {option}=2000000000", 1, f"{option}: the data set two_moons needs")


@pytest.mark.parametrize(("package", "extra", "command", "code"), case_table("missing_packages"))
def test_a_missing_package_is_one_line_that_names_its_extra(refused, monkeypatch, package, extra, command, code):
    monkeypatch.setattr("idwbench.machine.find_spec", lambda name: None)
    if package != "pyarrow":  # which pandas has imported
        monkeypatch.setitem(sys.modules, package, None)
    refused(command, code, f"needs the Python package '{package}' (pip install 'idwbench[{extra}]')")


def test_a_long_argument_is_not_echoed_whole(run):
    long = "a" * 5_000
    for arguments in ([long], ["two_moons", "--engine", long], ["two_moons", f"--{long}"]):
        result = run("sweep", *arguments)
        assert result.exit_code == 2
        assert "aaaa … aaaa" in result.stderr and len(result.stderr) < 2_500
