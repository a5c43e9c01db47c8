"""Repair a classifier
===================

A classifier of digits with twenty prototypes is wrong on an image. One more prototype mends it, with a radius of its
own: the largest with which no right prediction of the training data changes.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import idwbench
from idwbench.data.loading import load_dataset

# %%
# Train
# -----
# A run is stored with its metrics and its prototypes. `Results` shows what a database holds; a stored run gives its
# model.

folder = TemporaryDirectory()
database = Path(folder.name, "results.db")
config = idwbench.run_config("digits", prototypes=20, epochs=20)
run_key = idwbench.train(config, database).run_key
results = idwbench.Results(database)
model = results.run(run_key).model()
model

# %%
# Find what is wrong
# ------------------
# The explanation of an answer: the prototypes with the largest weights, and how much of the weight each class has.

digits = load_dataset(config.dataset)
images = model.scaling.invert(digits.test.inputs)  # data sets are scaled, models take the data's own units
truth = np.array(digits.class_names)[digits.test.labels]
answers = model.predict(images)
wrong = np.flatnonzero(answers != truth)
image, label = f"digits:test:{wrong[0]}", truth[wrong[0]]  # a row by its name; pixels are taken too
print(f"{len(wrong)} of {len(answers)} test images are wrong; the first is a {label}, the answer {answers[wrong[0]]}")
idwbench.explain(model, image, top=5)

# %%
# Mend it
# -------
# The patched model lists its patches: radius, and the distance within which every input certainly gets the label.

patched = model.patch(image, label)
patched

# %%
# Look at the harm, and at many
# -----------------------------
# All test images, with one patch and with one for each of ten wrong images. Patches are solved together, and undone
# one by one.

many = model.patch_all(list(images[wrong[:10]]), list(truth[wrong[:10]]))
for title, one, patches in (("one patch", patched, wrong[:1]), ("ten patches", many, wrong[:10])):
    others = np.setdiff1d(np.arange(len(truth)), patches)
    before, after = answers[others] == truth[others], one.predict(images[others]) == truth[others]
    print(f"{title}: of {len(others)} others {(after & ~before).sum()} better, {(before & ~after).sum()} worse")

# %%
# On a plane
# ----------
# The same on Two Moons, where the region of a patch can be seen. Each point within the circle certainly gets the
# label.

config = idwbench.run_config("two_moons", prototypes=16)
model = results.run(idwbench.train(config, database).run_key).model()
points = load_dataset(config.dataset)
names = np.array(points.class_names)
wrong = np.flatnonzero(model.predict(points.test.inputs) != names[points.test.labels])[0]
x = points.test.inputs[wrong]
patched = model.patch(x, names[points.test.labels[wrong]])
across, up = np.meshgrid(np.linspace(-1.6, 2.6, 110), np.linspace(-1.1, 1.6, 80))
grid = np.column_stack([across.ravel(), up.ravel()])
figure, panels = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for axes, one, title in zip(panels, (model, patched), ("before", "after the patch"), strict=True):
    is_lower = (one.predict(grid) == "lower").reshape(across.shape)
    axes.contourf(across, up, is_lower, levels=[-0.5, 0.5, 1.5], colors=["#D6E6F2", "#FBE3D3"])
    axes.scatter(*points.train.inputs.T, s=4, c=np.array(["#0072B2", "#D55E00"])[points.train.labels])
    axes.plot(*x, "k+", markersize=14)
    axes.set_title(title, fontsize=10)
panels[1].add_patch(plt.Circle(x, patched.repairs.records[0].certified_radius, fill=False))
plt.show()
