"""Models of given arrays, as a run that found them would store them."""

import numpy as np
import torch

from idwbench.attention.scores import get_method
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.saved_model import SavedModel, task_metrics
from idwbench.results.provenance import package_versions


def saved_array_model(config, dataset, arrays, metrics=None):
    """Return the model of a run with the keys and values in `arrays`, trained by the engine ``torch`` on a CPU."""
    keys, values = (torch.from_numpy(np.asarray(arrays[name])) for name in ("keys", "values"))
    return SavedModel(
        network=PrototypeNetwork(get_method(config.model.method), config.model.parameters, keys, values),
        config=config,
        scaling=dataset.scaling,
        image_shape=dataset.image_shape,
        class_names=dataset.class_names,
        target_scaling=dataset.target_scaling,
        provenance={
            "run_key": config.run_key,
            "engine": "torch",
            "device": "cpu",
            "data_sha256": dataset.sha256,
            "versions": package_versions(),
        },
        metrics=task_metrics(metrics or {}, dataset.task),
    )
