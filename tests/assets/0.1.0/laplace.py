"""A plugin as it was written for version 0.1.0."""

from idwbench.plugins import register


@register("laplace", formula="−Σ|x − k|/width", parameters={"width": 1.0}, initialisation="data")
def laplace(inputs, keys, *, width):
    return -(inputs.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1) / width
