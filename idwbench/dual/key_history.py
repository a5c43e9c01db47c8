"""The movement of keys as a sum over training samples.

The last key is k_T = factor ⊙ k_0 + Σ_s coefficient_s ⊙ g_s, elementwise, see `idwbench.dual.coefficients`. The size of
a step of Adam or AMSGrad is size_s = rate_s/(1 − β₁^(s+1)) / (√(m_s/(1 − β₂^(s+1))) + 1e-8), where m is the mean square
of the gradients, or its maximum so far (arXiv 1904.09237).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idwbench.dual.coefficients import BETA_1

__all__ = ["KeyHistory", "adam_step_sizes"]

BETA_2, GUARD = 0.999, 1e-8

Array = NDArray[np.float64]


def adam_step_sizes(rates: Array, squares: NDArray[np.floating], first: int) -> Array:
    """Return the sizes of consecutive steps of Adam or AMSGrad, (steps, …).

    Args:
        rates: Learning rate of each step, (steps,).
        squares: Mean squares of the gradients after each step, or their maxima, (steps, …).
        first: Number of steps before the first.
    """
    taken = first + 1 + np.arange(len(rates))
    scales = (rates / (1 - BETA_1**taken)).reshape(-1, *[1] * (squares.ndim - 1))
    roots = np.sqrt(1 - BETA_2**taken).reshape(scales.shape)
    sizes = np.sqrt(squares, dtype=np.float64)
    sizes /= roots
    sizes += GUARD
    return np.asarray(scales / sizes)


@dataclass(frozen=True)
class KeyHistory:
    """The share of each training sample in the movement Δk = k_T − k_0 of each key.

    The share of sample i in key j is ⟨c_ij, Δk_j⟩/‖Δk_j‖², with its contribution c_ij = Σ_s coefficient_s ⊙ g_sij over
    the steps that had the sample in their batch. Shares are negative where a sample moved the key the other way. For
    each key, `shares`, `initial_share` and `remainder` sum to 1. A key that did not move has shares 0.

    Attributes:
        initial: Keys before the first step, (prototypes, features), scaled.
        keys: Keys after the last step.
        values: Values after the last step, (prototypes, outputs).
        shares: (training rows, prototypes).
        class_shares: Sums of the shares of the steps of each epoch over the samples of each class, (epochs, classes,
            prototypes); a regression counts as one class.
        initial_share: Share of the initial key, shrunk by weight decay; 0 without it, (prototypes,).
        remainder: What rounding leaves, (prototypes,).
        is_exact: Whether the training was repeated bit for bit.
    """

    initial: NDArray[np.float32]
    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    shares: Array
    class_shares: Array
    initial_share: Array
    remainder: Array
    is_exact: bool

    @property
    def distance(self) -> Array:
        """‖Δk‖ of each key, in scaled units, (prototypes,)."""
        return np.asarray(np.linalg.norm(self.keys.astype(np.float64) - self.initial, axis=1))

    @property
    def classes(self) -> NDArray[np.intp]:
        """The class of each key: the largest of its values, (prototypes,)."""
        return np.asarray(self.values.argmax(1))

    def top(self, prototype: int, n: int, *, against: bool = False) -> NDArray[np.intp]:
        """Return the rows with the largest shares in a key, or with the smallest, at most `n`; ties by row."""
        shares = self.shares[:, prototype]
        return np.argsort(shares if against else -shares, kind="stable")[:n]

    def n_for(self, fraction: float = 0.5) -> NDArray[np.int64]:
        """Return for each key the smallest number of samples whose shares sum to `fraction`; −1 if none do."""
        sums = -np.sort(-self.shares, axis=0)
        np.cumsum(sums, axis=0, out=sums)
        enough = sums >= fraction
        return np.where(enough.any(0), enough.argmax(0) + 1, -1)

    def own_class_shares(self) -> tuple[Array, Array]:
        """Return the shares of the samples of each key's own class, and of all others, (epochs, prototypes)."""
        own = self.class_shares[:, self.classes, np.arange(len(self.keys))]
        return own, self.class_shares.sum(1) - own

    def lines(self) -> Iterator[str]:
        """Yield one line for each key: movement, samples for half of it, and what is not a sample's share."""
        for key, (moved, half) in enumerate(zip(self.distance, self.n_for(), strict=True)):
            yield (
                f"key {key}: moved {moved:.3g}, half by {half} samples, initial {self.initial_share[key]:.1%}, "
                f"rounding {self.remainder[key]:.1e}"
            )
