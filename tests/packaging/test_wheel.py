"""The built package runs without the repository.

The wheel is built from the source archive and installed in a new environment. The other packages are those of the
environment of the tests, behind the installed one on the path. A new environment has no compiled kernels: the demo runs
a small sweep that needs none; at full size (``make torture``) it trains the shipped one with the fused engine, and the
pages on the first hour with a table, a score or a notebook are run, which tests/docs runs without the wheel.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_HOURS = ("own_table.md", "own_score.md", "notebooks.md")
COPIED = ("idwbench", "sweeps", "benchmarks", "examples")  # of which the last two are left out
SWEEP = "name: small\ndataset: two_moons\nseeds: 2\ngrid: {kind: kernel_regression, kernel: gaussian}\n"
# Nothing of the repository is on the path of the new environments.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "IDWBENCH_DB")}

pytestmark = pytest.mark.slow


def succeeds(program, folder):
    """Run a program and return what it printed."""
    result = subprocess.run(program, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert result.returncode == 0, f"{program}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("package")
    for source in ROOT.iterdir():
        if source.name in COPIED:
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.is_file():
            shutil.copyfile(source, folder / source.name)
    succeeds([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", "."], folder)
    return folder / "dist"


def installed(package, folder):
    """Install a package in a new environment, and return the folder of its programs."""
    venv.create(folder, with_pip=False, symlinks=True)
    [site] = folder.glob("lib/python3.*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin/python"
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", *options]
    succeeds([*map(str, pip), str(package)], folder)
    where = succeeds([python, "-c", "import idwbench; print(idwbench.__file__)"], folder)
    assert Path(where.strip()).is_relative_to(site)
    return folder / "bin"


def test_the_demo_runs_in_an_empty_folder_without_the_repository(built, tmp_path):
    [wheel] = built.glob("*.whl")
    program = installed(wheel, tmp_path / "environment") / "idwbench"
    folder = tmp_path / "empty"
    folder.mkdir()
    names = [line.split()[0] for line in succeeds([program, "sweep", "--list"], folder).splitlines()]
    assert sorted(names) == sorted(path.stem for path in (ROOT / "sweeps").rglob("*.yaml"))
    assert succeeds([program, "sweep", "two_moons", "--dry-run"], folder).count("missing") == 210
    name = "two_moons" if os.environ.get("IDWBENCH_TORTURE") else "small"
    (folder / "small.yaml").write_text(SWEEP)
    succeeds([program, "sweep", "two_moons" if name == "two_moons" else "small.yaml"], folder)
    assert "two_moons" in succeeds([program, "report", "--table", name], folder)
    if name == "two_moons":
        succeeds([program, "figure", "moons", "--table", name, "-o", "moons.png"], folder)
        assert (folder / "moons.png").stat().st_size > 10_000
        for page in FIRST_HOURS:
            run_page((ROOT / "docs" / page).read_text(encoding="utf-8"), program, tmp_path / page)


def run_page(text, program, folder):
    """Run the blocks of a page in order in an empty folder: files are saved, and the Python blocks are one program."""
    folder.mkdir()
    shutil.copyfile(ROOT / "tests/assets/penguins.csv", folder / "penguins.csv")
    code = ""
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        named = re.match(r"(?:# (\w+\.\w+)|name: (\w+))\n", block)
        if named:
            (folder / (named[1] or f"{named[2]}.yaml")).write_text(block, encoding="utf-8")
        elif language == "python":
            code += block
        elif language in ("sh", "console"):
            lines = [line.removeprefix("$ ") for line in block.splitlines() if language == "sh" or line[:2] == "$ "]
            for line in lines:
                succeeds([program, *shlex.split(line, comments=True)[1:]], folder)
    succeeds([program.with_name("python"), "-c", code], folder)


def test_the_packages_hold_the_sources_and_the_sweeps_and_neither_tests_nor_results(built):
    [wheel], [archive] = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        inside = set(opened.namelist())
    files = [path for path in (ROOT / "idwbench").rglob("*.*") if "__pycache__" not in path.parts]
    sources = {str(path.relative_to(ROOT)) for path in files}
    sweeps = {f"idwbench/{path.relative_to(ROOT)}" for path in (ROOT / "sweeps").rglob("*.yaml")}
    assert sources | sweeps <= inside
    assert {name.split("/")[0].split("-")[0] for name in inside} == {"idwbench"}
    with tarfile.open(archive) as opened_archive:
        folders = {name.split("/")[1] for name in opened_archive.getnames() if "/" in name}
    assert {"idwbench", "sweeps", "LICENSE", "CITATION.cff", "CHANGES.md"} <= folders
    assert not folders & {"tests", "results", "docs", "benchmarks", "examples"}
    assert max(wheel.stat().st_size, archive.stat().st_size) < 3_000_000
