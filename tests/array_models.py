"""Models of given arrays, as a run that found them would store them."""

import numpy as np
import torch
from case_tables import arrays_in

from idwbench.attention.scores import BUILT_IN_METHODS, get_method
from idwbench.models.initialisation import initial_slopes, learned_arrays
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.saved_model import SavedModel, task_metrics
from idwbench.results.provenance import package_versions

# The settings of each score in which engines and layers are compared with formulas, beside the default ones.
OTHER_SETTINGS = {
    "cosine": [{"temperature": 0.1}],
    "additive": [{"form": "linear", "hidden": 3}],
    "scaled_dot": [{"scale": "prototypes"}],
    "gaussian": [{"sigma_squared": 30.0}],
    "neg_dist": [{"power": 1.0}, {"power": 3.0}],
    "inv_dist": [{"epsilon": 0.1}, {"epsilon": 0.5, "power": 1.5}],
    "idw": [{"power": 1.0}, {"power": 7.0, "epsilon": 1.0}, {"epsilon": 0.0}, {"power": 0.5, "epsilon": 0.1}],
}
SCORE_SETTINGS = [(name, given) for name in BUILT_IN_METHODS for given in ({}, *OTHER_SETTINGS.get(name, []))]


def learned_tensors(method, n_features, dtype=torch.float64, **given):
    """Return random arrays that a score learns, by name; most methods have none."""
    record = get_method(method)
    arrays = learned_arrays(record, record.resolve(given), n_features, np.random.default_rng(0))
    return {name: torch.from_numpy(array).to(dtype) for name, array in arrays.items()}


def random(*shape, seed=0, dtype=torch.float64):
    """Return a tensor of normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def randomise(module):
    """Give a module weights large enough that every one of them matters, and return it."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.5 if parameter.dim() == 1 else 0, 0.5, generator=generator)
    return module


def tensors_in(given):
    """Return a mapping with a tensor in place of each {shape: …}, see `arrays_in`."""
    arrays = arrays_in(given)
    return {name: part if part is given[name] else torch.from_numpy(part) for name, part in arrays.items()}


def random_arrays(config, dataset, seed=0):
    """Return random arrays of all that a run learns, by name."""
    model, generator = config.model, np.random.default_rng(seed)
    shapes = {"keys": (model.prototypes, dataset.n_features), "values": (model.prototypes, dataset.n_outputs)}
    shapes |= {name: array.shape for name, array in initial_slopes(model, dataset, generator).items()}
    arrays = {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return arrays | learned_arrays(model.method_record, model.parameters, dataset.n_features, generator)


def saved_array_model(config, dataset, arrays, metrics=None):
    """Return the model of a run with `arrays` by name, trained by the engine ``torch`` on a CPU."""
    return SavedModel(
        network=PrototypeNetwork.of(config.network.method_record, config.model.parameters, arrays),
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
