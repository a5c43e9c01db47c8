"""Correct one answer with one prototype
=====================================

A patch adds one prototype at an input that the model gets wrong, with a radius of its own: the largest with which no
right prediction of the training data changes. Each point within the certified radius, the circle, gets the label.
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

points = load_dataset(run.config.dataset)
names = np.array(points.class_names)
wrong = np.flatnonzero(model.predict(points.test.inputs) != names[points.test.labels])[0]
x, label = points.test.inputs[wrong], names[points.test.labels[wrong]]
patched = model.patch(x, label)
record = patched.repairs.records[0]
print(model.predict([x]), "->", patched.predict([x]))
print(f"radius {record.radius:.3f}, certain within {record.certified_radius:.3f}")

across, up = np.meshgrid(np.linspace(-1.6, 2.6, 110), np.linspace(-1.1, 1.6, 80))
grid = np.column_stack([across.ravel(), up.ravel()])
figure, panels = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for axes, one, title in zip(panels, (model, patched), ("before", "after the patch"), strict=True):
    is_lower = (one.predict(grid) == "lower").reshape(across.shape)
    axes.contourf(across, up, is_lower, levels=[-0.5, 0.5, 1.5], colors=["#D6E6F2", "#FBE3D3"])
    axes.scatter(*points.train.inputs.T, s=4, c=np.array(["#0072B2", "#D55E00"])[points.train.labels])
    axes.plot(*x, "k+", markersize=14)
    axes.set_title(title, fontsize=10)
panels[1].add_patch(plt.Circle(x, record.certified_radius, fill=False))
plt.show()
