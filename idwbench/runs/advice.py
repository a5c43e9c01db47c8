"""Which settings usually help a prototype network that has not learned its training data."""

from __future__ import annotations

from idwbench.attention.scores import get_method
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.prototypes import TABLE_DEFAULTS, PrototypesConfig
from idwbench.runs.metrics import Metrics

__all__ = ["LOW_ACCURACY", "training_advice"]

LOW_ACCURACY = 0.9
_LARGER_POWER = 8
_FEW_EPOCHS = 50


def training_advice(config: RunConfig, metrics: Metrics) -> str:
    """Return a line with what may help if the accuracy on the training data is below `LOW_ACCURACY`, else nothing."""
    accuracy, model, protocol = metrics.get(("train", "accuracy")), config.model, config.protocol
    if accuracy is None or accuracy >= LOW_ACCURACY or not isinstance(model, PrototypesConfig):
        return ""
    method = get_method(model.method, model.weighting)
    helps = [f"more than {model.prototypes} prototypes"]
    power = model.parameters.get("power")
    if isinstance(power, int | float) and power < _LARGER_POWER / 2:
        helps.append(f"power {_LARGER_POWER}")
    if method.has_points and model.initialisation in ("default", "mean"):
        helps.append(f"initialisation {TABLE_DEFAULTS['initialisation']}")
    if method.has_points and protocol.learning_rate < TABLE_DEFAULTS["learning_rate"]:
        helps.append(f"learning_rate {TABLE_DEFAULTS['learning_rate']:g}")
    if protocol.epochs < _FEW_EPOCHS:
        helps.append(f"{_FEW_EPOCHS} epochs")
    listed = " and ".join([", ".join(helps[:-1]), helps[-1]]) if len(helps) > 1 else helps[0]
    return f"the train accuracy {100 * accuracy:.1f} % is low; what usually helps: {listed}"
