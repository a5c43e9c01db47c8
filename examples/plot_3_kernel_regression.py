"""Kernel regression: the data as memory
=====================================

The same attention without training: the keys are the training inputs, the values are the targets. ``shepard`` with
ε = 0 passes through every point; ε > 0 makes it ``idw`` attention.
"""

import matplotlib.pyplot as plt
import numpy as np

import idwbench

generator = np.random.default_rng(0)
x = generator.uniform(0, 5, size=(60, 1))
y = np.sin(2 * x[:, 0]) + generator.normal(scale=0.2, size=60)
grid = np.linspace(0, 5, 400)[:, None]
estimates = {
    "gaussian, h = 0.3": {"kernel": "gaussian", "bandwidth": 0.3},
    "epanechnikov, leave-one-out h": {"kernel": "epanechnikov", "bandwidth": "loo"},
    "shepard, p = 2, ε = 0": {"kernel": "shepard", "power": 2},
    "shepard, p = 4, ε = 0.001": {"kernel": "shepard", "power": 4, "epsilon": 0.001},
}

figure, panels = plt.subplots(1, 4, figsize=(12, 2.6), sharey=True, layout="constrained")
for axes, (title, kernel) in zip(panels, estimates.items(), strict=True):
    estimate = idwbench.kernel_regression(grid, x, y, **kernel)
    error = np.sqrt(np.mean((estimate - np.sin(2 * grid[:, 0])) ** 2))
    axes.plot(grid, np.sin(2 * grid), color="#B0B7BF", linewidth=3, label="truth")
    axes.plot(x, y, ".", color="#0072B2", markersize=4, label="data")
    axes.plot(grid, estimate, color="#D55E00", linewidth=1.2, label="estimate")
    axes.set_title(f"{title}: RMSE {error:.2f}", fontsize=9)
panels[0].legend(frameon=False, fontsize=8)
plt.show()
