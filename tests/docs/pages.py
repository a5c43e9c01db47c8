"""What the blocks of a page find in their folder before the first is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from blocks import ROOT, blocks_of

from idwbench.sweep.execution import run_sweep
from idwbench.sweep.shipped import shipped_sweeps

DATABASE = "results/idwbench.db"


def sweep(name: str, dataset: str, grid: str, db: str = DATABASE, protocol: str = "{epochs: 1}") -> None:
    """Train a small sweep under the name of a long one."""
    path = Path(f"small_{name}.yaml")
    path.write_text(f"name: {name}\ndataset: {dataset}\nprotocol: {protocol}\nseeds: 1\ngrid: {grid}\n")
    run_sweep(path, db, jobs=1)
    path.unlink()


def short_sweeps() -> None:
    """Put the sweep of the tutorial in the folder, with one seed."""
    Path("sweeps").mkdir()
    text = (ROOT / "sweeps/two_moons.yaml").read_text(encoding="utf-8")
    Path("sweeps/two_moons.yaml").write_text(text.replace("seeds: 10", "seeds: 1"), encoding="utf-8")


def tutorial() -> None:
    """Shorten the shipped sweep."""
    short_sweeps()
    shipped_sweeps()["two_moons"] = Path("sweeps/two_moons.yaml").absolute()


def patching() -> None:
    [rows] = [block.text for block in blocks_of("docs/patching.md") if block.language == "csv"]
    Path("patches.csv").write_text(rows, encoding="utf-8")


def claims() -> None:
    sweep("small", "two_moons", "{method: idw, prototypes: 2}", "results.db")


def quality() -> None:
    sweep("small", "two_moons", "{method: idw, prototypes: 2}")


def perceptrons() -> None:
    for name, record in (("dual_form", "false"), ("dual_history", "true")):
        grid = f"{{kind: mlp, width: 3, record: {record}}}"
        sweep(name, "two_moons", grid, protocol="{epochs: 1, optimizer: sgd}")


def hash_tables() -> None:
    data = "{name: lookup, items: [2, 4, 8], dimensions: [2, 4], queries: 8, noise: 0.1}"
    sweep("hash_table_capacity", data, "{kind: hash_table, similarity: idw}")
    learned = "{kind: hash_table, similarity: idw, projections: linear}"
    sweep("hash_table_learned", "{name: lookup, items: 4, dimensions: 2, queries: 8}", learned)


def html_page() -> None:
    sweep("two_moons", "two_moons", "{method: idw, prototypes: 16}")


def own_text() -> None:
    Path("my.txt").write_text("A fox saw a crow with a piece of cheese.\n" * 60, encoding="utf-8")


PREPARED: dict[str, Callable[[], None]] = {
    "docs/claims.md": claims,
    "docs/hash_table.md": hash_tables,
    "docs/language_models.md": own_text,
    "docs/lstm.md": own_text,
    "docs/mlp.md": perceptrons,
    "docs/page.md": html_page,
    "docs/patching.md": patching,
    "docs/quality.md": quality,
    "docs/tutorial.md": tutorial,
}
