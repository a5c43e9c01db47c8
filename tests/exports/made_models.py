"""Models of all methods with scaled inputs, and the inputs that are hard for them."""

from dataclasses import replace

import numpy as np
import onnxruntime
import torch
from array_models import random_arrays, saved_array_model
from blob_data import make_dataset, make_regression
from case_tables import case_table

from idwbench.data.dataset import Scaling
from idwbench.models.modules import PrototypeNetwork
from idwbench.runs.config import run_config

METHODS = case_table("exported_models")
NAMES = [" ".join(map(str, [name, *parameters.values()])) for name, parameters in METHODS]
SCALING = Scaling(np.array([100.0, -3.0, 0.001]), np.array([7.0, 0.1, 1e-5]))


def made_model(method="idw", *, regression=False, **parameters):
    """Return a model with five prototypes, of which two have the same key."""
    dataset = replace(make_regression() if regression else make_dataset(), scaling=SCALING)
    config = run_config(dataset.config, method=method, prototypes=5, **parameters)
    metrics = {("train", "rmse" if regression else "accuracy"): 0.75, ("test", "coverage"): 2.0}
    arrays = random_arrays(config, dataset)
    arrays["keys"][4] = arrays["keys"][3]
    arrays["values"] *= 2
    return saved_array_model(config, dataset, arrays, metrics=metrics)


def hard_inputs(model):
    """Return inputs (n, 3) in the data's own units: random ones, keys, near keys, and the mean, which scales to 0."""
    generator = np.random.default_rng(1)
    keys = model.network.keys.detach().numpy().astype(np.float64)
    scaled = [generator.normal(size=(20, 3)), keys, keys + 1e-5 * generator.normal(size=keys.shape), np.zeros((1, 3))]
    return model.scaling.invert(np.concatenate(scaled))


def far_inputs(model):
    """Return inputs that are a thousand and a billion standard deviations away."""
    directions = np.random.default_rng(2).normal(size=(6, 3))
    return model.scaling.invert(np.concatenate([1e3 * directions, 1e9 * directions]))


def exact_outputs(model, inputs):
    """Return the outputs of the network in float64, for inputs that are scaled to float32."""
    network = model.network
    arrays = {name: part.detach().double().numpy() for name, part in network.named_parameters()}
    exact = PrototypeNetwork.of(network.method, network.parameters_of_method, arrays)
    with torch.no_grad():
        return exact(torch.from_numpy(model.scaling.apply(inputs)).double()).numpy()


def onnx_session(file):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def run_onnx(file, *batches):
    """Return the outputs of a file, or of its bytes, by name, for each batch in one session."""
    session = onnx_session(file)
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, {"inputs": batch}), strict=True)) for batch in batches]
