"""Correct one answer with one prototype
=====================================

A patch adds one prototype at an input, with the smallest value that meets a criterion: here a probability of 0.9 for
the label. Only a small part of the plane gets another answer.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import idwbench
from idwbench.data.loading import load_dataset
from idwbench.models.saved_model import stored_model

with TemporaryDirectory() as folder:
    run = idwbench.train(idwbench.run_config("two_moons", prototypes=16), Path(folder, "results.db"))
    model = stored_model(idwbench.Results(Path(folder, "results.db")), run)

x = [0.0, 1.0]
patched = model.patch(x, "lower", confidence=0.9)
print(model.predict([x]), "->", patched.predict([x]))
print("size of the new value:", patched.recorded_patches()[0].record.eta)

across, up = np.meshgrid(np.linspace(-1.6, 2.6, 110), np.linspace(-1.1, 1.6, 80))
grid = np.column_stack([across.ravel(), up.ravel()])
points = load_dataset(run.config.dataset).train
figure, panels = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for axes, one, title in zip(panels, (model, patched), ("before", "after the patch"), strict=True):
    is_lower = (one.predict(grid) == "lower").reshape(across.shape)
    axes.contourf(across, up, is_lower, levels=[-0.5, 0.5, 1.5], colors=["#D6E6F2", "#FBE3D3"])
    axes.scatter(*points.inputs.T, s=4, c=np.array(["#0072B2", "#D55E00"])[points.labels])
    axes.plot(*x, "k+", markersize=14)
    axes.set_title(title, fontsize=10)
plt.show()
