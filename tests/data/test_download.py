import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from sources import PACKAGE, nodes

# Writes to a JSON file what happened, since standard output must stay empty.
SCRIPT = """
import hashlib, io, json, sys, time, urllib.error, urllib.request, warnings
from pathlib import Path
from idwbench.data.download import fetch_archive, torchvision_datasets
from idwbench.data.loading import load_dataset
from idwbench.errors import DatasetError
from idwbench.runs.datasets import DigitsConfig, TwoMoonsConfig

folder, seen, content = Path(sys.argv[1]), {}, b"official content"
load_dataset(TwoMoonsConfig())
seen["loaded by two_moons"] = [name for name in ("sklearn", "scipy", "pandas", "torch") if name in sys.modules]
load_dataset(DigitsConfig())
seen["loaded by digits"] = [name for name in ("torch", "torchvision") if name in sys.modules]
checksum = hashlib.sha256(content).hexdigest()
datasets = torchvision_datasets()
seen["mirrors"] = len(datasets.MNIST.mirrors)
seen["again"] = torchvision_datasets() is datasets
import torch
seen["nms"] = hasattr(torch.ops.torchvision, "nms")

class Answer(io.BytesIO):
    def __init__(self, url, content):
        super().__init__(content)
        self.url, self.length = url, len(content)

def serve(answers):
    def urlopen(request, *rest, **named):
        answer = answers[request.full_url.split("/")[2].split(".")[0]]
        if isinstance(answer, Exception):
            raise answer
        return Answer(request.full_url, answer)
    urllib.request.urlopen = urlopen

def attempt(name, answers):
    serve(answers)
    target = folder / name / "raw" / "train-labels-idx1-ubyte.gz"
    try:
        fetch_archive("MNIST", target, checksum)
        seen[name] = target.read_bytes().decode()
    except DatasetError as error:
        seen[name] = str(error)
    seen[name + " files"] = [path.name for path in target.parent.glob("*")]

down = urllib.error.URLError("no route\\nto host")
attempt("offline", {"ossci-datasets": down, "yann": TimeoutError("timed out")})
attempt("served", {"ossci-datasets": content, "yann": down})
attempt("second mirror", {"ossci-datasets": b"altered", "yann": content})
attempt("altered", {"ossci-datasets": b"altered", "yann": b"half"})
Path(sys.argv[2]).write_text(json.dumps(seen))
"""


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """One process for all: torchvision takes seconds to import, and must not stay loaded in this one."""
    folder = tmp_path_factory.mktemp("fetched")
    done = run(SCRIPT, folder, folder / "seen.json")
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "seen.json").read_text()) | {"stdout": done.stdout}


@pytest.mark.slow
def test_torchvision_can_be_imported_whatever_build_of_torch_is_there(seen):
    assert seen["mirrors"] >= 1 and seen["again"] and seen["nms"]


@pytest.mark.slow
def test_an_archive_is_fetched_and_nothing_is_said_on_standard_output(seen):
    assert seen["served"] == "official content"
    assert seen["served files"] == ["train-labels-idx1-ubyte.gz"]
    assert seen["stdout"] == ""


@pytest.mark.slow
def test_if_one_mirror_sends_another_file_the_next_is_asked(seen):
    assert seen["second mirror"] == "official content"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["offline", "altered"])
def test_a_failed_download_gives_one_line_and_leaves_no_file(name, seen):
    assert "\n" not in seen[name] and seen[name + " files"] == []
    assert {"offline": "no route to host", "altered": "SHA-256 begins with"}[name] in seen[name]


@pytest.mark.slow
def test_a_pair_that_fits_is_imported_as_it_is(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("loads = []\n")
    (tmp_path / "torchvision" / "datasets.py").write_text("import torchvision\ntorchvision.loads.append(1)\n")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from idwbench.data import download as source\n"
        "source.torchvision_datasets(); source.torchvision_datasets()\n"
        "import torchvision\n"
        "assert torchvision.loads == [1] and source._declared == [] and 'torch' not in sys.modules"
    )
    assert run(script, tmp_path).stderr == ""


def imports_torchvision(path):
    """True if the file imports torchvision by a statement, or names it as a module anywhere in its strings."""
    found = nodes(path) if "torchvision" in path.read_text(encoding="utf-8") else []
    for node in found:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            names = [str(node.args[0].value)]
        if any(name.split(".")[0] == "torchvision" for name in names):
            return True
    return False


def test_no_other_module_imports_torchvision():
    found = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if imports_torchvision(path)]
    assert found == [Path("data/download.py")]


@pytest.mark.slow
def test_two_moons_loads_no_scikit_learn_and_digits_no_torch(seen):
    assert seen["loaded by two_moons"] == seen["loaded by digits"] == []
