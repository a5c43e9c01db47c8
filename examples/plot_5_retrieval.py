"""A table that is looked up softly
================================

Random keys in 16 dimensions are a memory; a query is one of them with noise. The weight of the right key falls with the
number of items, and the scores differ in how fast.
"""

import matplotlib.pyplot as plt
import torch

import idwbench

generator = torch.Generator().manual_seed(0)
sizes = (8, 32, 128, 512, 2048)
scores = {
    "scaled_dot": {"score": "scaled_dot"},
    "idw, p = 2": {"score": "idw", "power": 2, "epsilon": 1e-3},
    "idw, p = 8": {"score": "idw", "power": 8, "epsilon": 1e-3},
    "neg_dist": {"score": "neg_dist"},
}

shares = {label: [] for label in scores}
for items in sizes:
    keys = torch.randn(items, 16, generator=generator)
    queries = keys[:8] + 0.3 * torch.randn(8, 16, generator=generator)
    for label, score in scores.items():
        weights = idwbench.attend(queries, keys, torch.eye(items), **score)
        shares[label].append(float(weights[range(8), range(8)].mean()))

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for label, values in shares.items():
    axes.plot(sizes, values, "o-", label=label)
axes.set(xscale="log", xlabel="items in the table", ylabel="weight of the right item", ylim=(0, 1.05))
axes.legend(frameon=False)
plt.show()
