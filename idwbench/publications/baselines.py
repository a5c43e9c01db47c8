"""Baselines: classifiers and regressors of scikit-learn beside learned prototypes."""

from idwbench.publications.publication import Item, Publication

__all__ = ["BASELINES"]

_ITEMS = (
    Item("table_baselines", "Classifiers by data set", "baselines", by_dataset=True),
    Item("table_baselines_regression", "Regressors by data set", "baselines_regression", by_dataset=True),
    Item("table_baselines_mnist", "Classifiers on MNIST", "baselines_mnist"),
)
_SWEEPS = ("baselines", "baselines_regression", "baselines_mnist")
BASELINES = Publication("baselines", "Learned prototypes beside standard methods", _ITEMS, _SWEEPS)
