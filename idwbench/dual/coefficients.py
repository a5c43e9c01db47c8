"""The coefficient of each step's gradient in the parameters at the end of a training.

Every optimizer here takes steps that are linear in the gradients g_s once the sizes of the steps are known:

    v_s = old · v_{s−1} + new · (clip_s · g_s + decay · w_s),   w_{s+1} = w_s − size_s ⊙ v_s

SGD: size = rate, old = momentum, new = 1. Adam and AMSGrad: old = β₁, new = 1 − β₁, and a size for each number or row.
So the last parameters are w_T = factor ⊙ w_0 + Σ_s coefficient_s ⊙ g_s, elementwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from idwbench.runs.protocol import Protocol

__all__ = ["BETA_1", "BackwardCoefficients", "adam_coefficients", "step_coefficients"]

Numbers = NDArray[np.float64]

# The decay of the first moment in Adam, as in `idwbench.training.optimizers`.
BETA_1 = 0.9


class BackwardCoefficients:
    """The coefficients of gradients in the last parameters, from the last step backwards.

    p_T = 1, r_T = 0; then for s = T−1, …, 0: q = r − size_s ⊙ p, coefficient_s = q · new · clip_s,
    p ← p + q · new · decay, r ← old · q. At the end p is the factor of the initial parameters.

    Args:
        weight_decay: Weight decay.
        momentum: Momentum of SGD; None for Adam and AMSGrad.

    Attributes:
        factor: The factor of the parameters before the earliest step so far; broadcasts against them.
    """

    def __init__(self, weight_decay: float, momentum: float | None = None) -> None:
        self.weight_decay = weight_decay
        self.old, self.new = (BETA_1, 1 - BETA_1) if momentum is None else (momentum, 1.0)
        self.factor: Numbers = np.ones(())
        self._velocity_factor: Numbers = np.zeros(())

    @classmethod
    def of(cls, protocol: Protocol) -> Self:
        """Return the coefficients for a protocol's optimizer."""
        return cls(protocol.weight_decay, protocol.momentum if protocol.optimizer == "sgd" else None)

    def earlier(self, sizes: Numbers, clips: Numbers) -> Numbers:
        """Return the coefficients (steps, …) of the steps before those of the last call, in the order of time.

        Args:
            sizes: Sizes of the steps, (steps, …).
            clips: What each gradient was multiplied by, (steps,).
        """
        coefficients = np.empty_like(sizes)
        for step in range(len(sizes) - 1, -1, -1):
            through = self._velocity_factor - sizes[step] * self.factor
            np.multiply(through, self.new * clips[step], out=coefficients[step, ...])
            if self.weight_decay:
                self.factor = self.factor + (self.new * self.weight_decay) * through
            self._velocity_factor = self.old * through
        return coefficients


def step_coefficients(
    rates: ArrayLike, clips: ArrayLike, momentum: float = 0.0, weight_decay: float = 0.0
) -> tuple[Numbers, float]:
    """Return c (steps,) and f with W_T = f·W_0 + Σ_s c_s g_s, exactly, for SGD as `torch.optim.SGD`.

    A step is v_s = μ·v_{s−1} + clip_s·g_s + λ·W_s and W_{s+1} = W_s − rate_s·v_s. With constant rate, without weight
    decay: c_s = −rate·clip_s·(1 − μ^(T−s))/(1 − μ), for s = 0, …, T − 1, and f = 1.

    Args:
        rates: Learning rate of each step.
        clips: What each step's gradient g was multiplied by to clip it.
        momentum: μ.
        weight_decay: λ, which is added to the gradient.
    """
    coefficients, factor = _all_steps(
        BackwardCoefficients(weight_decay, momentum), np.asarray(rates, np.float64), clips
    )
    return coefficients, float(factor)


def adam_coefficients(scales: Numbers, clips: ArrayLike, weight_decay: float = 0.0) -> tuple[Numbers, Numbers]:
    """Return c (steps, outputs) and f (outputs,) with W_T[o] = f[o]·W_0[o] + Σ_s c_s[o] g_s[o] + residual[o], for Adam.

    A step of Adam is m_s = β·m_{s−1} + (1 − β)(clip_s·g_s + λ·W_s) and W_{s+1}[o] = W_s[o] + d_s[o]·m̂_s[o] + r_s[o],
    with m̂_s = m_s/(1 − β^(s+1)), β = 0.9, and a remainder r.

    Args:
        scales: d (steps, outputs), the factor of each row of m̂_s in the update that is nearest to the update.
        clips: What each step's gradient g was multiplied by to clip it.
        weight_decay: λ.
    """
    corrections = 1 - BETA_1 ** np.arange(1.0, len(scales) + 1)
    return _all_steps(BackwardCoefficients(weight_decay), -scales / corrections[:, None], clips)


def _all_steps(backward: BackwardCoefficients, sizes: Numbers, clips: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return the coefficients (steps, …) of all steps, and the factor (…) of the initial parameters."""
    coefficients = backward.earlier(sizes, np.broadcast_to(np.asarray(clips, np.float64), len(sizes)))
    return coefficients, np.broadcast_to(backward.factor, sizes.shape[1:])
