"""What the program costs around the training: its start, the database, tables, memory, loading of data."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.tables import header, row
from benchmarks.timing import processor_seconds, side_by_side
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.training.threads import available_cores

__all__ = ["large", "loading", "memory", "startup", "table_1", "two_moons"]

ROOT = Path(__file__).parents[1]
IMPORTS = "import sqlalchemy, pydantic, typer, numpy"
PROGRAM = ("-m", "idwbench")


def _ratio(words: tuple[str, ...], imports: str, rounds: int = 5) -> tuple[float, float]:
    """Return the processor time of a command over that of some imports, timed in turn, and its seconds."""
    work = (lambda: processor_seconds(*words)), (lambda: processor_seconds("-c", imports))
    times = side_by_side(*work, rounds=rounds, clock=lambda piece: float(piece()))  # type: ignore[arg-type]
    return times.ratio(0, 1), times.seconds(0)


@contextmanager
def _sweep(text: str) -> Iterator[tuple[str, str]]:
    """Give the paths of a sweep file and of a database that does not exist yet."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sweep.yaml"
        file.write_text(text, encoding="utf-8")
        yield str(file), f"{folder}/results.db"


def startup(mnist: Dataset) -> None:
    """Processor time of small commands over that of the imports that those with a database cannot do without."""
    header("command", "ratio", "processor seconds", "must", numbers=2)
    for words in ((), ("train",), ("sweep",), ("report",), ("patch",)):
        ratio, seconds = _ratio((*PROGRAM, *words, "--help"), IMPORTS)
        row(" ".join(("idwbench", *words, "--help")), f"{ratio:.2f}", f"{seconds:.2f}", "≤ 1")
    with _sweep((ROOT / "sweeps/two_moons.yaml").read_text(encoding="utf-8")) as (file, db):
        processor_seconds(*PROGRAM, "sweep", file, "--db", db)
        for words in (("sweep", file), ("report", "--table", "two_moons")):
            ratio, seconds = _ratio((*PROGRAM, *words, "--db", db), IMPORTS, rounds=11)
            title = "sweep with nothing to do" if words[0] == "sweep" else "report --table two_moons"
            row(title, f"{ratio:.2f}", f"{seconds:.2f}", "≤ 1.3")


def large(mnist: Dataset) -> None:
    """Commands on 10,000 stored runs, and a plan of 100,000, by processor time over the same imports."""
    header("command", "ratio", "processor seconds", "must", numbers=2)
    text = (
        "name: large\ndataset: {name: two_moons, train_per_class: 5, holdout_per_class: 0}\n"
        "protocol: {epochs: 1}\nseeds: SEEDS\ngrid: {method: gaussian, prototypes: 2, sigma_squared: 2}\n"
    )
    with _sweep(text.replace("SEEDS", "100000")) as (file, db):
        _row("plan of 100,000 runs: sweep --dry-run", ("sweep", file, "--dry-run", "--db", db), "≤ 15")
    with _sweep(text.replace("SEEDS", "10000")) as (file, db):
        processor_seconds(*PROGRAM, "sweep", file, "--db", db)
        _row("10,000 runs: sweep with nothing to do", ("sweep", file, "--db", db), "≤ 15")
        _row("10,000 runs: report --table", ("report", "--table", "large", "--db", db), "≤ 10")


def _row(title: str, words: tuple[str, ...], must: str) -> None:
    ratio, seconds = _ratio((*PROGRAM, *words), IMPORTS, rounds=3)
    row(title, f"{ratio:.1f}", f"{seconds:.2f}", must)


def loading(mnist: Dataset) -> None:
    """MNIST from the cache, over the time that NumPy takes to scale as many pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(70_000, 784), dtype=np.uint8)
    times = side_by_side(
        lambda: load_dataset(mnist.config), lambda: (pixels.astype(np.float32) / 255 - 0.13) / 0.31, rounds=5
    )
    header("work", "ratio", "seconds", "must", numbers=2)
    row("MNIST, the second time / scaling its pixels", f"{times.ratio(0, 1):.1f}", f"{times.seconds(0):.2f}", "≤ 4")


def table_1(mnist: Dataset) -> None:
    """`idwbench sweep sweeps/mnist.yaml`, everything included."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = _seconds("sweep", str(ROOT / "sweeps/mnist.yaml"), "--db", f"{folder}/results.db")
    header("work", "seconds", "must", numbers=1)
    row(f"Table 1, six methods, {available_cores()} cores", f"{seconds:.1f}", "≤ 45")


def two_moons(mnist: Dataset) -> None:
    """A sweep of 1,000 seeds of one cell of Two Moons, database included."""
    grid = "{method: idw, prototypes: 16, power: 2, epsilon: 1.0e-3}"
    text = f"name: seeds\ndataset: two_moons\nseeds: SEEDS\ngrid: {grid}\n"

    def seconds(n_seeds: int) -> float:
        with _sweep(text.replace("SEEDS", str(n_seeds))) as (file, db):
            return _seconds("sweep", file, "--db", db)

    one, thousand = (sorted(seconds(n) for _ in range(3))[1] for n in (1, 1000))
    header("work", "seconds", "runs a second", "must", numbers=2)
    row("1 seed: the start of the program", f"{one:.2f}", "", "")
    row("1,000 seeds, the start included", f"{thousand:.2f}", f"{1000 / thousand:.0f}", "")
    row("1,000 seeds less that start", f"{thousand - one:.2f}", f"{999 / (thousand - one):.0f}", "≥ 400")


def memory(mnist: Dataset) -> None:
    """Peak memory of a sweep of 10 and of 100 MNIST runs."""
    header("runs in one sweep", "peak memory, MB", numbers=1)
    for n in (10, 100):
        text = (
            f"name: seeds\ndataset: mnist\nprotocol: {{epochs: 1, batch_size: 256}}\nseeds: {n}\n"
            "grid: {method: idw, prototypes: 20, power: 2, epsilon: 1.0e-3}\n"
        )
        with _sweep(text) as (file, db):
            program = (
                "import json, resource, subprocess, sys\n"
                f"subprocess.run([sys.executable, '-m', 'idwbench', 'sweep', {file!r}, '--db', {db!r}],"
                " check=True, capture_output=True)\n"
                "print(json.dumps(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n"
            )
            peak = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        row(str(n), f"{peak / 1024:.0f}")


def _seconds(*words: str) -> float:
    """Return how many seconds a command of the program takes, from its start to its end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *PROGRAM, *words], check=True, capture_output=True)
    return time.perf_counter() - started
