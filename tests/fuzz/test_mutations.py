"""Whatever is given as sweep file, model file or command line: one line, exit code 1 or 2, and nothing written.

The long version (IDWBENCH_TORTURE=1) has 1,000 sweep files, 300 model files and 100 command lines. All are the same in
each run; a case is repeated by its number.
"""

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from array_models import random_arrays, saved_array_model
from mutations import mutated_model, mutated_text, wrong_command
from typed import SMALL_SWEEP, typed

from idwbench.data.loading import load_dataset
from idwbench.errors import ModelFileError, SpecError
from idwbench.models.model_file import load_model, save_model
from idwbench.runs.config import run_config
from idwbench.runs.datasets import parse_dataset
from idwbench.sweep.spec import read_sweep

pytestmark = pytest.mark.slow

LONG = os.environ.get("IDWBENCH_TORTURE") == "1"
SWEEPS = sorted(Path(__file__).parents[2].glob("sweeps/**/*.yaml"))
MOST_PLANNED = 500  # runs of a mutated sweep that is still valid


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IDWBENCH_DB", raising=False)
    return tmp_path


def problem(result, *codes):
    """Return what is wrong with the answer to wrong input; nothing if it is as it should be."""
    if not isinstance(result.exception, SystemExit):
        return f"{result.exception!r}"
    if result.exit_code not in codes:
        return f"exit code {result.exit_code}: {result.stderr}"
    if result.stdout or len(result.stderr.splitlines()) != 1 or not result.stderr.rstrip("\n").isprintable():
        return f"printed {result.stdout!r} and {result.stderr!r}"
    return ""


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check_cases(kind, cases, answer, capsys):
    """Answer each case by an outcome and what is wrong with it; return how often there was each outcome."""
    wrong, counted = [], Counter()
    for case in cases:
        outcome, what = answer(random.Random(f"{kind} {case}"))
        counted[outcome] += 1
        wrong += [f"{case}: {what}"] if what else []
    if LONG:
        with capsys.disabled():
            print(f"\n{kind}: {', '.join(f'{number} {name}' for name, number in sorted(counted.items()))}")
    assert not wrong, "\n".join(wrong)
    return counted


@pytest.mark.parametrize("part", range(20 if LONG else 2))
def test_mutated_sweep_files_are_refused_in_one_line_or_planned(part, folder, capsys):
    path = folder / "mutated.yaml"

    def answer(draw):
        path.write_bytes(mutated_text(draw, draw.choice(SWEEPS).read_text()))
        try:
            spec = read_sweep(path)
        except SpecError:
            return "refused", problem(typed("sweep", path, "--db", "none.db"), 2)
        except Exception as error:
            return "failed", f"{error!r}"
        if len(spec.seeds) * len(spec.datasets) * len(spec.settings) > MOST_PLANNED:
            return "valid", ""
        result = typed("sweep", path, "--dry-run", "--db", "none.db")  # planned without training
        return "valid", "" if result.exit_code == 0 else f"planned: {result.stderr} {result.exception!r}"

    counted = check_cases("sweep", range(50 * part, 50 * (part + 1)), answer, capsys)
    assert names(folder) == {"mutated.yaml"}
    assert counted["refused"] > 25 and counted["valid"] > 0


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Small models by the name of their file: with a patch, and of a regression."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("two_moons", "sine"):
        config, dataset = run_config(name, prototypes=4), load_dataset(parse_dataset(name))
        model = saved_array_model(config, dataset, random_arrays(config, dataset))
        if dataset.class_names:
            model = model.patch([0.0, 1.0], 1)
        for suffix in (".pt", ".safetensors"):
            save_model(model, folder / f"{name}{suffix}")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("part", range(10 if LONG else 1))
def test_mutated_model_files_are_refused_in_one_line_or_read(part, folder, models, capsys):
    def answer(draw):
        path = folder / draw.choice(sorted(models))
        path.write_bytes(mutated_model(draw, models[path.name], path.suffix))
        query = "0.5,1.0" if "moons" in path.name else "0.5"
        results = [typed("patch", path, "--list"), typed("explain", path, "--x", query)]
        try:
            load_model(path)
            outcome, wrong = "read", [problem(result, 1, 2) for result in results if result.exit_code != 0]
        except ModelFileError:
            outcome, wrong = "refused", [problem(result, 2) for result in results]
        except Exception as error:
            outcome, wrong = "failed", [f"{error!r}"]
        path.unlink()
        return outcome, " ".join(filter(None, wrong))

    counted = check_cases("model", range(30 * part, 30 * (part + 1)), answer, capsys)
    assert names(folder) == set()
    assert counted["refused"] > 10  # how many can still be read depends on the bytes of the models


@pytest.mark.parametrize("part", range(4 if LONG else 2))
def test_wrong_command_lines_are_refused_in_one_line(part, folder, models, capsys):
    for name, content in models.items():
        (folder / name).write_bytes(content)
    (folder / "sweep.yaml").write_text(SMALL_SWEEP)
    (folder / "table.csv").write_text("a,b,label\n1,2,x\n2,3,y\n3,4,x\n4,5,y\n")
    before = names(folder)

    def answer(draw):
        arguments = wrong_command(draw)
        wrong = problem(typed(*arguments), 1, 2)
        written = names(folder) ^ before
        return arguments[0], f"{' '.join(arguments)}: {wrong} {written or ''}" if wrong or written else ""

    check_cases("command", range(25 * part, 25 * (part + 1)), answer, capsys)
