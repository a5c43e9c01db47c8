"""From squared distances to weights and back, for some queries at a time."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from idwbench.attention.masks import Masks
from idwbench.attention.scores import SquareForm

__all__ = ["DistanceWeights", "Pullback"]

# The gradient of distances from that of weights, which may be overwritten.
Pullback = Callable[[Tensor], Tensor]


class DistanceWeights(NamedTuple):
    """How squared distances become weights.

    Attributes:
        of_squares: The score as a function of squared distances.
        square_form: The same in a form without autograd, if the weighting is a softmax; or None.
        weighting: The function ``(scores, masks, start) -> weights`` of the queries from number `start`.
        masks: The masks.
        dropout: Probability with which a weight is set to 0; the others are divided by 1 − dropout.
    """

    of_squares: Callable[[Tensor], Tensor]
    square_form: SquareForm | None
    weighting: Callable[[Tensor, Masks, int], Tensor]
    masks: Masks
    dropout: float

    def of(self, sq_dist: Tensor, masks: Masks, start: int) -> Tensor:
        """Return the weights of queries from number `start`; may overwrite the distances."""
        form = self.square_form
        if form is None:
            return self.weighting(self.of_squares(sq_dist), masks, start)
        return _softmax(form.terms(sq_dist), form.exponential, masks, start)

    def with_pullback(self, sq_dist: Tensor, masks: Masks, start: int) -> tuple[Tensor, Pullback]:
        """Return the weights and their pullback; may overwrite the distances."""
        form = self.square_form
        if form is None:
            with torch.enable_grad():
                sq_dist = sq_dist.detach().requires_grad_()
                weights = self.weighting(self.of_squares(sq_dist), masks, start)
            return weights.detach(), lambda gradient: torch.autograd.grad(weights, sq_dist, gradient)[0]
        terms = form.terms(sq_dist)
        softmax = _softmax(terms, form.exponential, masks, start)

        def pullback(gradient: Tensor) -> Tensor:
            mean = torch.linalg.vecdot(gradient, softmax).unsqueeze(-1)
            return gradient.sub_(mean).mul_(softmax).mul_(form.slope(terms))

        return softmax, pullback


def _softmax(terms: Tensor, exponential: bool, masks: Masks, start: int) -> Tensor:
    """Return the softmax of finite scores, given as they are or as their exponentials; 0 for a query without keys."""
    if masks.attention is None and masks.padding is None:
        kept = _without_future(terms, start, 0.0 if exponential else -math.inf) if masks.causal else terms
        return kept / kept.sum(-1, keepdim=True) if exponential else kept.softmax(-1)
    mask = masks.rows(start, start + terms.shape[-2], terms.shape[-1], terms)
    assert mask is not None
    scores = (terms.log() if exponential else terms) + mask
    empty = scores.amax(-1, keepdim=True) == -math.inf
    return scores.softmax(-1).masked_fill_(empty, 0.0)


def _without_future(terms: Tensor, start: int, value: float) -> Tensor:
    """Return the terms of queries from number `start` with `value` at the keys that a causal mask excludes."""
    n_rows, n_keys = terms.shape[-2:]
    future = torch.ones(n_rows, max(0, n_keys - start), dtype=torch.bool).triu(1)
    terms = terms.clone()
    terms[..., start:].masked_fill_(future, value)
    return terms
