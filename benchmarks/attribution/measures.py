"""How well scores of training rows say what the training data does to an answer.

The linear datamodeling score is that of Park et al. 2023 (*TRAK: Attributing Model Behavior at Scale*, section 2.1);
mislabelled rows are detected as by Pruthi et al. 2020, arXiv 2002.08484.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, rankdata
from sklearn.metrics import roc_auc_score

__all__ = [
    "Mean",
    "ceiling",
    "detection",
    "linear_datamodeling_scores",
    "mean_with_interval",
    "random_halves",
    "rank_correlations",
    "top_rows",
]

Numbers = NDArray[np.floating]


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the mean with its interval in brackets."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_with_interval(values: Numbers, seed: int = 0) -> Mean:
    """Return the mean of values (n,) with the percentile bootstrap interval over the values."""
    if np.ptp(values) == 0:
        return Mean(*[float(values[0])] * 3)
    found = bootstrap((values,), np.mean, n_resamples=2_000, method="percentile", rng=np.random.default_rng(seed))
    return Mean(float(values.mean()), *map(float, found.confidence_interval))


def random_halves(n_rows: int, n_halves: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return which rows each half contains, (halves, rows)."""
    halves = np.zeros((n_halves, n_rows), bool)
    for half in halves:
        half[generator.permutation(n_rows)[: n_rows // 2]] = True
    return halves


def rank_correlations(first: Numbers, second: Numbers) -> NDArray[np.float64]:
    """Return Spearman's correlation of each column of two arrays (n, columns); 0 where one of them is constant."""
    ranks = [rankdata(values, axis=0) - (len(values) + 1) / 2 for values in (first, second)]
    lengths = np.linalg.norm(ranks[0], axis=0) * np.linalg.norm(ranks[1], axis=0)
    return (ranks[0] * ranks[1]).sum(0) / np.where(lengths == 0, np.inf, lengths)


def linear_datamodeling_scores(scores: Numbers, subsets: NDArray[np.bool_], outputs: Numbers) -> NDArray[np.float64]:
    """Return the linear datamodeling score of each query.

    It is Spearman's correlation, over subsets of the training rows, of the output of models that were trained on a
    subset with the sum of the scores of its rows.

    Args:
        scores: The score of each training row for each query, (queries, rows).
        subsets: Which rows each subset contains, (subsets, rows).
        outputs: The output of the retrained models, (subsets, queries).
    """
    return rank_correlations(subsets.astype(np.float64) @ scores.T.astype(np.float64), outputs)


def ceiling(outputs: Numbers) -> NDArray[np.float64]:
    """Return the linear datamodeling score that scores without error would have, for each query.

    The mean output over seeds still varies with the seeds. With r the correlation of the means over the first and the
    second half of the seeds, the reliability of the mean over all is 2r/(1 + r) (Spearman and Brown), and its root is
    the largest correlation with anything that does not depend on the seeds.

    Args:
        outputs: The output of the retrained models, (seeds, subsets, queries), with an even number of seeds.
    """
    half = len(outputs) // 2
    agreement = rank_correlations(outputs[:half].mean(0), outputs[half:].mean(0)).clip(min=0)
    return np.sqrt(2 * agreement / (1 + agreement))


def detection(suspicion: Numbers, flipped: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve of a suspicion of each row (rows,) against the rows with a flipped label."""
    return float(roc_auc_score(flipped, suspicion))


def top_rows(scores: Numbers, k: int) -> NDArray[np.int64]:
    """Return the k rows with the highest scores (rows,), the highest first; ties by row."""
    return np.argsort(-scores, kind="stable")[:k]
