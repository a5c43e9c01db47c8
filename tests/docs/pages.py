"""What the blocks of a page find in their folder before the first is run, and what is special about them."""

from pathlib import Path

from blocks import ROOT, blocks_of
from ruamel.yaml import YAML

from idwbench.sweep.execution import run_sweep
from idwbench.sweep.shipped import shipped_sweeps

SPECIAL = YAML(typ="safe").load(Path(__file__).with_name("pages.yaml"))


def sweep(name, dataset, grid, db="results/idwbench.db", protocol="{epochs: 1}"):
    """Train a small sweep under the name of a long one."""
    path = Path(f"small_{name}.yaml")
    path.write_text(f"name: {name}\ndataset: {dataset}\nprotocol: {protocol}\nseeds: 1\ngrid: {grid}\n")
    run_sweep(path, db, jobs=1)
    path.unlink()


def tutorial():
    """Shorten the shipped sweep to one seed."""
    text = (ROOT / "sweeps/two_moons.yaml").read_text(encoding="utf-8")
    Path("two_moons.yaml").write_text(text.replace("seeds: 10", "seeds: 1"), encoding="utf-8")
    shipped_sweeps()["two_moons"] = Path("two_moons.yaml").absolute()


def patching():
    [rows] = blocks_of("docs/patching.md", "csv")
    Path("patches.csv").write_text(rows.text, encoding="utf-8")


def own_text():
    Path("my.txt").write_text("A fox saw a crow with a piece of cheese.\n" * 60, encoding="utf-8")


PREPARED = {
    "docs/language_models.md": own_text,
    "docs/patching.md": patching,
    "docs/tutorial.md": tutorial,
}
