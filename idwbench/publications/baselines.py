"""Baselines: classifiers and regressors of scikit-learn beside learned prototypes."""

from __future__ import annotations

from idwbench.publications.items import Item, Publication, find_sweeps

__all__ = ["BASELINES"]

_SWEEPS = ("sweeps/baselines.yaml", "sweeps/baselines_regression.yaml", "sweeps/baselines_mnist.yaml")
_ITEMS = (
    Item("table_baselines", "Classifiers by data set", "baselines", by_dataset=True),
    Item("table_baselines_regression", "Regressors by data set", "baselines_regression", by_dataset=True),
    Item("table_baselines_mnist", "Classifiers on MNIST", "baselines_mnist"),
)
BASELINES = Publication("baselines", "Learned prototypes beside standard methods", _ITEMS, None, find_sweeps(_SWEEPS))
