"""Decision regions on Two Moons
=============================

Four scores with eight prototypes each, trained with the protocol of the paper; stars are keys. The keys of ``idw`` lie
in the data. Some keys of the other scores are outside of the picture.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import idwbench
from idwbench.data.loading import load_dataset
from idwbench.models.saved_model import stored_model

configs = [
    idwbench.run_config("two_moons", method=method, prototypes=8)
    for method in ("idw", "neg_dist", "gaussian", "scaled_dot")
]
points = load_dataset(configs[0].dataset).train
colours = np.array(["#0072B2", "#D55E00"])
x, y = np.meshgrid(np.linspace(-1.6, 2.6, 90), np.linspace(-1.1, 1.6, 60))
grid = np.column_stack([x.ravel(), y.ravel()])

with TemporaryDirectory() as folder:
    results = idwbench.Results(Path(folder, "results.db"))
    figure, panels = plt.subplots(1, 4, figsize=(12, 2.6), sharex=True, sharey=True, layout="constrained")
    for axes, config in zip(panels, configs, strict=True):
        run = idwbench.train(config, Path(folder, "results.db"))
        model = stored_model(results, run)
        is_lower = (model.predict(grid) == "lower").reshape(x.shape)
        axes.contourf(x, y, is_lower, levels=[-0.5, 0.5, 1.5], colors=["#D6E6F2", "#FBE3D3"])
        axes.scatter(*points.inputs.T, s=4, c=colours[points.labels])
        keys = model.explain([0.0, 0.0]).keys
        axes.plot(*keys.T, "k*", markersize=9)
        axes.set_title(f"{config.model.method}: test accuracy {run.metric('accuracy'):.1%}", fontsize=9)
        axes.set(xlim=(-1.6, 2.6), ylim=(-1.1, 1.6))
plt.show()
