"""Your own score in a sweep
=========================

A score is a function of inputs and keys. Once registered, it is a method like any other: an axis of a sweep, with a
row in tables and leaderboards.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import idwbench

# %%
# Write the score
# ---------------
# Scores (batch, prototypes) for inputs (batch, features) and keys (prototypes, features), in PyTorch. Its parameters
# become settings.


@idwbench.register("manhattan", formula="−‖x − k‖₁ / temperature", parameters={"temperature": 1.0})
def manhattan(inputs, keys, *, temperature):
    """Return the negative city-block distance."""
    return -(inputs.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1) / temperature


# %%
# Sweep it beside others
# ----------------------
# The file is the same as for `idwbench sweep`. Runs that are stored are not trained again.

SWEEP = """
name: own_score
dataset: two_moons
protocol: {epochs: 15}
seeds: 6
grid:
  - {method: [idw, neg_dist], prototypes: [4, 16]}
  - {method: manhattan, prototypes: [4, 16], temperature: [0.2, 1.0]}
"""
folder = TemporaryDirectory()
database = Path(folder.name, "results.db")
file = Path(folder.name, "own_score.yaml")
file.write_text(SWEEP, encoding="utf-8")
idwbench.run_sweep(file, database)
results = idwbench.Results(database, read_only=True)
results.leaderboard("own_score")

# %%
# Go on with pandas
# -----------------
# One row for each run, with settings and metrics as columns.

runs = results.to_frame(sweep="own_score", where="prototypes == 16")
runs.groupby(["method", "temperature"], dropna=False)["holdout_accuracy"].agg(["mean", "std", "count"])

# %%
# Look at what was learned
# ------------------------

results.figure("curves", "own_score")
