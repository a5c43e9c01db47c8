"""Attention as kernel regression and as a hash table
==================================================

One formula, Σ a(q, k_j) v_j, with two memories that nobody trained: the data, which makes it kernel regression, and a
table, which makes it a hash table that is looked up softly.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import idwbench

# %%
# The data as memory
# ------------------
# The keys are the training inputs, the values are the targets. ``shepard`` with ε = 0 passes through every point; ε >
# 0 makes it ``idw`` attention.

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

# %%
# It is the same attention
# ------------------------
# `attend` with the score ``idw`` gives the estimate of Shepard's kernel.

points, data, targets = (torch.from_numpy(part) for part in (grid, x, y[:, None]))
attended = idwbench.attend(points, data, targets, "idw", power=4, epsilon=1e-3)
print(f"largest difference {np.abs(attended[:, 0].numpy() - estimate).max():.0e}")

# %%
# A table as memory
# -----------------
# Random keys in 16 dimensions; a query is one of them with noise. The weight of the right key falls with the number
# of items, and the scores differ in how fast.

random = torch.Generator().manual_seed(0)
sizes = (8, 32, 128, 512, 2048)
scores = {
    "scaled_dot": {"score": "scaled_dot"},
    "idw, p = 2": {"score": "idw", "power": 2, "epsilon": 1e-3},
    "idw, p = 8": {"score": "idw", "power": 8, "epsilon": 1e-3},
    "neg_dist": {"score": "neg_dist"},
}
shares = {label: [] for label in scores}
for items in sizes:
    keys = torch.randn(items, 16, generator=random)
    queries = keys[:8] + 0.3 * torch.randn(8, 16, generator=random)
    for label, score in scores.items():
        weights = idwbench.attend(queries, keys, torch.eye(items), **score)
        shares[label].append(float(weights[range(8), range(8)].mean()))
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for label, values in shares.items():
    axes.plot(sizes, values, "o-", label=label)
axes.set(xscale="log", xlabel="items in the table", ylabel="weight of the right item", ylim=(0, 1.05))
axes.legend(frameon=False)
plt.show()

# %%
# A hard look-up beside the soft one
# ----------------------------------
# The weighting decides how many items answer: all of them with a softmax, one with ``argmax``, a few with
# ``sparsemax``.

keys = torch.randn(256, 16, generator=random)
queries = keys[:100] + 0.3 * torch.randn(100, 16, generator=random)
for weighting in ("softmax", "sparsemax", "argmax"):
    weights = idwbench.attend(queries, keys, torch.eye(256), "idw", weighting=weighting, power=2, epsilon=1e-3)
    found = (weights.argmax(1) == torch.arange(100)).double().mean()
    print(
        f"{weighting}: {found:.0%} of the items found, {(weights > 1e-3).sum(1).double().mean():.1f} items in an answer"
    )
