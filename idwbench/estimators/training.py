"""Training of an estimator by the kernels of the fused engine: parameters, rows with weights, epochs.

The rule of sample weights: rows of weight 0 are left out. With the automatic batch size, if all distinct rows fit into
one batch, identical rows are merged, their weights added, and the rows sorted by their bytes: an integer weight then
gives the same model as so many copies of a row, in any order, to the last bit. Otherwise a weight multiplies the loss
of its row, and rows keep their order. Only ratios of weights matter, and equal weights are those of no weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import BUILT_IN_METHODS
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import Split, TrainingData
from idwbench.errors import ConfigError, did_you_mean
from idwbench.models.initialisation import check_prototypes
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.kinds.prototypes import TABLE_DEFAULTS, PrototypesConfig
from idwbench.runs.protocol import Protocol, learning_rate
from idwbench.runs.settings import validated
from idwbench.training.engine import PrototypeTraining, batch_orders
from idwbench.training.threads import limited_threads

if TYPE_CHECKING:
    from idwbench.training.kernel_runs import KernelRun

__all__ = [
    "AUTO_BATCH",
    "Rows",
    "TrainingState",
    "checked_weights",
    "mean_one",
    "merged",
    "parsed_training",
    "plain",
    "relative",
    "train_prototypes",
    "training_seed",
]

# Rows of a batch with batch_size="auto"; as many distinct rows or fewer are one batch.
AUTO_BATCH = 200
# With epochs="auto": so many steps, within a range of epochs.
_AUTO_STEPS = 2000
_FEWEST_EPOCHS, _MOST_EPOCHS = 20, 500
# Number of differences of inputs and keys in one call of the kernel, after which an interruption is noticed.
_CALL_NUMBERS = 2**30

Weights = NDArray[np.float64]


def parsed_training(parameters: Mapping[str, Any], n_rows: int, seed: int) -> PrototypeTraining:
    """Return the training for the parameters of an estimator, with numbers in place of "auto".

    Raises:
        ValueError: a parameter is unknown, of the wrong type or out of range; the message begins with its name.
    """
    given = _with_automatic(parameters, n_rows)
    fields = {name: given[name] for name in ("method", "initialisation", "key_bounds", "key_penalty", "slope_rank")}
    fields["prototypes"] = given["n_prototypes"]
    known = [name for name, method in BUILT_IN_METHODS.items() if not method.learned]
    if str(given["method"]) not in known:
        hint = did_you_mean(str(given["method"]), known)
        raise ValueError(f"method: unknown method {given['method']!r} ({hint})")
    numbers = _method_parameters(given)
    try:
        model = parse_model({**fields, **numbers})
        assert isinstance(model, PrototypesConfig)
        protocol = validated(Protocol, {name: given[name] for name in Protocol.model_fields if name in given})
    except ConfigError as error:
        location = ["n_prototypes" if step == "prototypes" else step for step in error.location]
        raise ValueError(error.render(".".join(map(str, location)))) from None
    return PrototypeTraining(model, protocol, seed)


def _method_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the method: those in the dictionary `parameters`, ``power`` and ``epsilon``."""
    extra = given["parameters"]
    if not (extra is None or isinstance(extra, Mapping)):
        raise ValueError(f"parameters: expected a dict or None, got {extra!r}")
    numbers = {str(name): plain(value) for name, value in (extra or {}).items()}
    if others := [name for name in numbers if name in (*Protocol.model_fields, *PrototypesConfig.model_fields)]:
        raise ValueError(f"parameters: {others[0]!r} is not a parameter of any method")
    for name in ("power", "epsilon"):
        if given[name] is not None:
            if name in numbers:
                raise ValueError(f"{name}: also in `parameters`; give it once")
            numbers[name] = given[name]
    return numbers


def _with_automatic(parameters: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return the parameters with values in place of "auto".

    ``batch_size``: 200, or the number of rows if that is smaller. ``epochs``: for about 2,000 steps, from 20 to 500.
    ``initialisation`` and ``key_bounds``: `TABLE_DEFAULTS`, but for methods whose keys are no points those without it,
    and the initialisation of the method if there are fewer rows than prototypes.
    """
    numbers = {name: plain(value) for name, value in parameters.items()}
    method = BUILT_IN_METHODS.get(str(numbers["method"]))
    has_points, n_prototypes = method is not None and method.has_points, numbers["n_prototypes"]
    if numbers["initialisation"] == "auto":
        is_enough = has_points and isinstance(n_prototypes, int) and n_prototypes <= n_rows
        numbers["initialisation"] = TABLE_DEFAULTS["initialisation"] if is_enough else "default"
    if numbers["key_bounds"] == "auto":
        numbers["key_bounds"] = TABLE_DEFAULTS["key_bounds"] if has_points else "none"
    if numbers["batch_size"] == "auto":
        numbers["batch_size"] = min(AUTO_BATCH, n_rows)
    batch_size = numbers["batch_size"]
    if numbers["epochs"] == "auto" and isinstance(batch_size, int) and batch_size > 0:
        steps = math.ceil(n_rows / batch_size)
        numbers["epochs"] = min(max(math.ceil(_AUTO_STEPS / steps), _FEWEST_EPOCHS), _MOST_EPOCHS)
    return numbers


def training_seed(random_state: Any) -> int:
    """Return the seed of a run: a whole number itself, otherwise one drawn by scikit-learn's rule.

    Raises:
        ValueError: neither a number from 0 to 2³² − 1, None nor a `RandomState`.
    """
    from sklearn.utils import check_random_state

    generator = check_random_state(random_state)
    number = plain(random_state)
    return number if isinstance(number, int) else int(generator.randint(2**32, dtype=np.uint64))


def plain(value: Any) -> Any:
    """Return a NumPy scalar as a number of Python, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


class Rows(NamedTuple):
    """Inputs (n, features), targets (n,) or (n, outputs), and weights (n,), or None for equal weights."""

    inputs: NDArray[np.float32]
    targets: NDArray[Any]
    weights: Weights | None = None

    def positive(self) -> Rows:
        """Return the rows with a weight above 0."""
        if self.weights is None or self.weights.all():
            return self
        kept = self.weights > 0
        return Rows(self.inputs[kept], self.targets[kept], self.weights[kept])


def checked_weights(sample_weight: Any, X: NDArray[Any]) -> Weights | None:
    """Return the sample weights of `X` (n, features) in float64, (n,), or None.

    Raises:
        ValueError: not one finite number for each row, a negative number, or only zeros.
    """
    from sklearn.utils.validation import _check_sample_weight

    if sample_weight is None:
        return None
    weights: Weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`.")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number; all are zero.")
    return weights


def merged(rows: Rows, most: int) -> Rows | None:
    """Return the distinct rows in the order of their bytes with their total weights, or None if they exceed `most`."""
    parts = (np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in rows[:2])
    together = np.concatenate([*parts], axis=1)
    records = together.view(np.dtype((np.void, together.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(records, return_index=True, return_inverse=True)
    if len(first) > most:
        return None
    # Sums of integers are exact in any order.
    weights = np.bincount(inverse.reshape(-1), weights=rows.weights, minlength=len(first)).astype(np.float64)
    return Rows(np.ascontiguousarray(rows.inputs[first]), np.ascontiguousarray(rows.targets[first]), weights)


def relative(weights: Weights) -> Weights:
    """Return weights of at most 1 with the same ratios, so that no sum overflows; a power of two divides exactly."""
    return np.asarray(np.ldexp(weights, -int(np.frexp(weights.max())[1])))


def mean_one(weights: Weights | None) -> NDArray[np.float32] | None:
    """Return the weights divided by their mean; None if all are equal."""
    if weights is None or (weights == weights[0]).all():
        return None
    shares = weights / weights.max()
    return np.asarray(shares / shares.mean(), np.float32)


class TrainingState(NamedTuple):
    """Parameters with the state of the optimizer; the first of four arrays are the parameters.

    Attributes:
        keys: (4, prototypes, features), float32.
        values: (4, prototypes, outputs), float32, in the units of training.
        steps: Number of steps so far.
        seed: The seed of the training; None for prototypes that were given.
        bounds: The bounds of keys so far, (2, features), or (2, 0) without bounds; None before the first step.
        slopes: Of values with a slope W (4, rank · prototypes, features) and U (4, rank · prototypes, outputs), in the
            order of ranks and then of prototypes; None of others.
    """

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    steps: int = 0
    seed: int | None = None
    bounds: NDArray[np.float32] | None = None
    slopes: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    @classmethod
    def start(
        cls, keys: NDArray[np.float32], values: NDArray[np.float32], slopes: Mapping[str, NDArray[np.float32]]
    ) -> TrainingState:
        """Return the state before the first step.

        Args:
            keys: (prototypes, features).
            values: (prototypes, outputs).
            slopes: The `SLOPE_ARRAYS` by name; empty for values without a slope.
        """
        parts = keys, values, *(slopes[name].reshape(-1, slopes[name].shape[2]) for name in slopes)
        first, second, *others = (
            np.concatenate([part[None], np.zeros((3, *part.shape), np.float32)]) for part in parts
        )
        return cls(first, second, slopes=(others[0], others[1]) if others else None)

    def slopes_by_name(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of the `SLOPE_ARRAYS` by name; none without slopes."""
        n_prototypes = self.keys.shape[1]
        parts = (part[0].reshape(-1, n_prototypes, part.shape[2]).copy() for part in self.slopes or ())
        return dict(zip(SLOPE_ARRAYS, parts, strict=False))


def train_prototypes(
    training: PrototypeTraining,
    train: Split,
    n_classes: int,
    start: TrainingState | None = None,
    *,
    one_epoch: bool = False,
) -> tuple[TrainingState, list[float]]:
    """Train from the keys and values of `start`, an earlier state, or from the initialisation.

    All epochs, with a new optimizer; or with `one_epoch` a single one at the learning rate itself, without a schedule,
    which continues the optimizer of `start`: the order of its rows is determined by the seed and the number of steps
    so far, and bounds of keys are those of all rows so far. With 0 classes it is a regression. The losses are the means
    of each epoch of this training.

    Raises:
        ConfigError: too few rows for the initialisation.
        ValueError: loss, keys or values are not finite.
    """
    run, steps = _new_run(training, train, n_classes), 0
    if start is not None:
        start = start if one_epoch else TrainingState.start(start.keys[0], start.values[0], start.slopes_by_name())
        keys, values, steps = start.keys, start.values, start.steps
        if start.bounds is not None and start.bounds.shape == run.data.bounds.shape:
            low, high = zip(start.bounds, run.data.bounds, strict=True)
            run.data = run.data._replace(bounds=np.stack([np.minimum(*low), np.maximum(*high)]))
        run.keys[0] = keys.swapaxes(1, 2) if run.narrow else keys
        run.values[0] = values.swapaxes(1, 2)
        if start.slopes is not None:
            run.slope_inputs[0], run.slope_outputs[0] = start.slopes[0], start.slopes[1].swapaxes(1, 2)
    losses: list[float] = []
    # Where the kernels call BLAS, the result must not depend on the number of its threads.
    with limited_threads(1) if run.calls_blas else nullcontext():
        for orders, rates in _epochs(run, training, len(train), steps if one_epoch else None):
            losses += run.take_steps(orders, rates, steps).tolist()
            if (finite := int(run.finite[0])) < len(orders):
                place = f"step {steps + 1} or later" if one_epoch else f"epoch {len(losses) - len(orders) + finite + 1}"
                raise ValueError(
                    f"training diverged in {place}: loss, prototypes or values are not finite; "
                    "choose a smaller learning_rate, or scale the inputs"
                )
            steps += len(orders) * math.ceil(len(train) / training.protocol.batch_size)
    keys = run.keys[0].swapaxes(1, 2) if run.narrow else run.keys[0]
    values = run.values[0].swapaxes(1, 2)
    arrays = np.array(keys, order="C"), np.array(values, order="C")
    slopes = run.slope_inputs[0].copy(), np.array(run.slope_outputs[0].swapaxes(1, 2), order="C")
    bounds, has_slopes = run.data.bounds, training.network.slope_rank > 0
    return TrainingState(*arrays, steps, training.seed, bounds, slopes if has_slopes else None), losses


def _new_run(training: PrototypeTraining, train: Split, n_classes: int) -> KernelRun:
    from idwbench.training.fused_engine import prepare
    from idwbench.training.kernel_runs import KernelRun

    prepare()
    rows = TrainingData(train, tuple(map(str, range(n_classes))))
    check_prototypes(training.network, rows)
    return KernelRun(training, rows, rows.moments)


def _epochs(
    run: KernelRun, training: PrototypeTraining, n_rows: int, steps: int | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield orders of rows (epochs, rows) and rates (epochs,) of all epochs, or of the one after `steps`, by calls."""
    protocol = training.protocol
    if steps is not None:
        order = np.random.default_rng((training.seed, steps)).permutation(n_rows)
        yield order[None], np.array([protocol.learning_rate])
        return
    rates = np.array([learning_rate(protocol, epoch) for epoch in range(protocol.epochs)])
    chunk = max(1, _CALL_NUMBERS // (n_rows * run.keys[0, 0].size))
    for first in range(0, len(rates), chunk):
        some = rates[first : first + chunk]
        yield batch_orders(run.generator, n_rows, len(some)), some
