"""Other scores in attention layers
================================

``idwbench.MultiheadAttention`` replaces ``torch.nn.MultiheadAttention``. Here the inputs are points of a spiral, in
order, and all projections are the identity. Attention by distance is largest for near points; attention by dot product
prefers long vectors of the same direction, one turn further out.
"""

import matplotlib.pyplot as plt
import torch

import idwbench

time = torch.linspace(0, 4 * torch.pi, 48)
points = torch.stack([time * time.cos(), time * time.sin()], 1) / 4

figure, panels = plt.subplots(1, 5, figsize=(13, 2.8), layout="constrained")
panels[0].plot(*points.T, ".-", color="#0072B2")
panels[0].set_title("inputs", fontsize=10)
panels[0].set_aspect("equal")
for axes, score in zip(panels[1:], ("scaled_dot", "neg_dist", "gaussian", "idw"), strict=True):
    layer = idwbench.MultiheadAttention(2, 1, score=score, bias=False, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(2).repeat(3, 1))
        _, weights = layer(points[None], points[None], points[None])
    axes.imshow(weights[0], cmap="Blues", vmin=0, vmax=0.3)
    axes.set_title(score, fontsize=10)
    axes.set_xlabel("key")
panels[1].set_ylabel("query")
plt.show()
