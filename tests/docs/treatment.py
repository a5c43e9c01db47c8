"""What is not simply run: every block that is not named here is run as it is.

- PARSED: commands that take minutes, or need what a test does not have. The command line must accept them, and the
  sweep files that they name must exist; a prefix "" stands for all commands of the page.
- PROGRAMS: commands of other programs, with the reason for which they are not run.
- COMPILED: Python blocks that are only compiled. ELSEWHERE: Python blocks that another test runs, with its file.
- SHORTER: options that keep a command short, or let it be repeated.
"""

from __future__ import annotations

PARSED: dict[tuple[str, str], str] = {
    ("docs/published.md", "idwbench sweep sweeps/dual_history.yaml"): "records 3.8 GB",
    ("docs/published.md", "idwbench explain RUN_KEY"): "needs the recording above",
    ("docs/cluster.md", ""): "needs a cluster; tests/sweep/test_cluster.py",
    ("docs/hash_table.md", ""): "minutes: 24,970 tables",
    ("docs/key_history.md", ""): "needs the long training of the first block",
    ("docs/lstm.md", ""): "minutes, and a recording of gigabytes",
    ("docs/mlp.md", ""): "minutes: fifteen perceptrons on MNIST",
    ("docs/postgresql.md", ""): "needs a server; tests/cli/test_cli_postgresql.py",
    ("docs/quality.md", ""): "tests/cli/test_cli_claims.py",
    ("docs/completion.md", ""): "writes to the home folder; tests/cli/test_cli_completion.py",
}
PROGRAMS: dict[str, str] = {
    "source .venv/bin/activate": "the tests run in an environment",
    "python3 -m venv .venv": "tests/packaging/test_wheel.py makes environments",
    ".venv/bin/pip install .": "tests/packaging/test_wheel.py installs",
    "dask ": "needs a cluster",
    "openssl ": "makes keys for a cluster",
    "export DASK_": "settings of a cluster",
}
COMPILED: dict[tuple[str, int], str] = {("docs/cluster.md", 0): "needs Slurm"}
ELSEWHERE: dict[str, str] = {
    "docs/database.md": "tests/results/test_results_docs.py",
    "docs/kernel_regression.md": "tests/sweep/test_kernel_regression_runs.py",
}
SHORTER: dict[tuple[str, str], list[str]] = {
    ("docs/explain.md", "idwbench train"): ["--epochs", "3"],
    ("docs/patching.md", "idwbench train"): ["--epochs", "5"],
    ("docs/patching.md", "idwbench patch"): ["--force"],
}
# What is replaced in a sweep before it is saved, once the sweep of the page was planned.
SMALLER: dict[str, tuple[tuple[str, str], ...]] = {
    "docs/baselines.md": (("idw, prototypes: 6", "idw, prototypes: 6, epochs: 1"), ("seeds: 3", "seeds: 1")),
}
# Languages of blocks that are not code, or are checked by other tests: SQL by tests/results/test_results_docs.py.
NOT_CODE = {"", "csv", "sql", "text", "toml", "{toctree}", "{include}"}
