"""What is special about the blocks of a page: every block that is not named here is run as it is.

- PREPARED: what the blocks find in their folder before the first is run.
- PARSED: commands that take minutes, or need what a test does not have. The command line must accept them, and the
  sweep files that they name must exist; a prefix "" stands for all commands of the page.
- PROGRAMS: commands of other programs, with the reason for which they are not run.
- COMPILED: pages whose Python blocks are only compiled.
- SHORTER: options that keep a command short, or let it be repeated.
- HOLDS: expressions that are true at the end, of the names of the Python blocks and of all printed lines: in order in
  `printed`, as one text in `output`, with single spaces in `words`.
- SHOWN: words of those lines of the page's text blocks that were printed, but for the width of their columns.
"""

from pathlib import Path

from blocks import ROOT, blocks_of

from idwbench.sweep.execution import run_sweep
from idwbench.sweep.shipped import shipped_sweeps

DATABASE = "results/idwbench.db"


def sweep(name, dataset, grid, db=DATABASE, protocol="{epochs: 1}"):
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


def claims():
    sweep("small", "two_moons", "{method: idw, prototypes: 2}", "results.db")
    sweep("small", "two_moons", "{method: idw, prototypes: 2}")


def perceptrons():
    for name, record in (("dual_form", "false"), ("dual_history", "true")):
        grid = f"{{kind: mlp, width: 3, record: {record}}}"
        sweep(name, "two_moons", grid, protocol="{epochs: 1, optimizer: sgd}")


def hash_tables():
    data = "{name: lookup, items: [2, 4, 8], dimensions: [2, 4], queries: 8, noise: 0.1}"
    sweep("hash_table_capacity", data, "{kind: hash_table, similarity: idw}")
    learned = "{kind: hash_table, similarity: idw, projections: linear}"
    sweep("hash_table_learned", "{name: lookup, items: 4, dimensions: 2, queries: 8}", learned)


def own_text():
    Path("my.txt").write_text("A fox saw a crow with a piece of cheese.\n" * 60, encoding="utf-8")


PREPARED = {
    "docs/claims.md": claims,
    "docs/dual_form.md": perceptrons,
    "docs/hash_table.md": hash_tables,
    "docs/language_models.md": own_text,
    "docs/patching.md": patching,
    "docs/tutorial.md": tutorial,
}
PARSED = {
    ("docs/published.md", "idwbench sweep sweeps/dual_history.yaml"): "records 3.8 GB",
    ("docs/published.md", "idwbench explain RUN_KEY"): "needs the recording above",
    ("docs/attribution.md", ""): "needs the long training of the first block",
    ("docs/cluster.md", ""): "needs a cluster or a server; tests/sweep, tests/cli/test_sweep.py",
    ("docs/dual_form.md", ""): "minutes: fifteen perceptrons on MNIST",
    ("docs/hash_table.md", ""): "minutes: 24,970 tables",
    ("docs/language_models.md", ""): "minutes, and a recording of gigabytes",
    ("docs/repairs.md", ""): "an hour of studies; tests/figures/test_repair_figures.py",
    ("docs/prototypes.md", ""): "minutes of sweeps; tests/figures/test_keys.py",
    ("docs/sweeps.md", "idwbench runs watch"): "watches; tests/cli",
}
PROGRAMS = {
    "source .venv/bin/activate": "the tests run in an environment",
    "python3 -m venv .venv": "tests/packaging/test_wheel.py makes environments",
    ".venv/bin/pip install .": "tests/packaging/test_wheel.py installs",
    "dask ": "needs a cluster",
    "openssl ": "makes keys for a cluster",
    "export DASK_": "settings of a cluster",
}
COMPILED = {"docs/cluster.md": "needs Slurm"}
SHORTER = {
    ("docs/explain.md", "idwbench train"): ["--epochs", "3"],
    ("docs/patching.md", "idwbench train"): ["--epochs", "5"],
    ("docs/patching.md", "idwbench patch"): ["--force"],
}
# Languages of blocks that are not code, or are checked by other tests: SQL by tests/results/test_results_views.py.
NOT_CODE = {"", "csv", "sql", "text", "toml", "{eval-rst}", "{toctree}", "{include}"}
SHOWN = {"README.md": ("test", "code"), "docs/tutorial.md": ("test", "types"), "docs/reports.md": ("test", "two_moons")}
HOLDS = {
    "README.md": ("sum(line.startswith(('idw p=', 'inv_dist p=', 'neg_dist p=')) for line in words) == 3",),
    "docs/attribution.md": (
        "top.shape == (3, 5)",
        "(dataset.train.labels[top] == np.asarray(answers)[:, None]).mean() > 0.5",
    ),
    "docs/database.md": (
        "any(line.startswith('run data set model seed state test accuracy time') for line in words)",
        "replay.identical",
        "removal.planned == (keys[0],)",
    ),
    "docs/dual_form.md": (
        "'the recording of run my_run needs 1.6 MB in recordings' in printed and 'True' in printed",
        "np.allclose(totals.sum(1), memory.attention(queries).sum(1), rtol=1e-4)",
        "'two_moons 20' in printed and any('| layer_2 |' in line for line in printed)",
    ),
    "docs/estimators.md": ("\"['first' 'second']\" in output", "'True' in printed"),
    "docs/language_models.md": (
        "0 < float(printed[0]) < 4 and bool(printed[1])",
        "1 < float(printed[3]) < 2 and printed[4].startswith(\"('crow', 0.\")",
    ),
    "docs/patching.md": ("Path('restored.pt').read_bytes() == Path('model.pt').read_bytes()",),
}
