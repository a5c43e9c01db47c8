"""`Network`: an encoder from inputs to features, and a head from features to outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.attention.methods import get_method
from idwbench.data.dataset import Dataset, Split, feature_moments
from idwbench.data.loading import load_dataset
from idwbench.errors import TrainingError
from idwbench.models.batched_outputs import outputs_in_parts
from idwbench.models.encoders.conv import Conv
from idwbench.models.encoders.initialisation import initialise_layers
from idwbench.models.encoders.mlp import Mlp
from idwbench.models.encoders.vit_tiny import VitTiny
from idwbench.models.initialisation import check_prototypes, head_config, initial_prototypes
from idwbench.models.prototypes import PrototypeNetwork
from idwbench.results.store import Results
from idwbench.runs.kinds.network import LINEAR, NetworkConfig, check_encoder

__all__ = ["Network", "check_network", "feature_dataset", "initial_network", "load_network", "network_from_arrays"]


def check_network(model: NetworkConfig, dataset: Dataset) -> None:
    """Check that the encoder supports the data, and that there are enough training inputs for the prototypes.

    Raises:
        ConfigError: it needs images, or its patches do not divide them; or as `check_prototypes`.
    """
    check_encoder(model, dataset.image_shape)
    if model.prototypes:
        check_prototypes(head_config(model), dataset)


class Network(nn.Module):
    """outputs = head(encoder(inputs)).

    Attributes:
        encoder: From scaled inputs (batch, features of the data) to features (batch, `n_outputs` of the encoder).
        head: A linear layer, or a `PrototypeNetwork` in the space of these features.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, inputs: Tensor) -> Tensor:
        """Return outputs (batch, outputs): logits, or scaled predictions of a regression."""
        outputs: Tensor = self.head(self.encoder(inputs))
        return outputs

    def features(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the features (n, features) of scaled inputs, in parts of bounded memory."""
        return outputs_in_parts(self.encoder, inputs, next(self.parameters()).device)

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the outputs (n, outputs) of scaled inputs, in parts of bounded memory."""
        return outputs_in_parts(self, inputs, next(self.parameters()).device)

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the labels (n,) of scaled inputs."""
        return np.asarray(self.outputs(inputs).argmax(1), np.int64)


def initial_network(model: NetworkConfig, dataset: Dataset, generator: np.random.Generator) -> Network:
    """Return an untrained network; all its weights come from `generator`.

    The keys of a head of prototypes are features of training inputs under the untrained encoder, see
    `idwbench.models.initialisation`, in whose ways the features stand for the inputs.

    Raises:
        ConfigError: the encoder needs images, patches do not divide them, or there are too few training inputs.
    """
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    encoder = _encoder(model, dataset.n_features, dataset.image_shape, draws)
    network = Network(encoder, nn.Identity())
    if model.head == LINEAR:
        network.head = nn.Linear(int(encoder.n_outputs), dataset.n_outputs)
        initialise_layers(network.head, draws)
        return network
    features = feature_dataset(network, dataset, ("train",))
    pair = initial_prototypes(head_config(model), features, feature_moments(features.train.inputs), generator)
    network.head = _prototypes(model, *map(torch.from_numpy, pair))
    return network


def feature_dataset(network: Network, dataset: Dataset, splits: tuple[str, ...] | None = None) -> Dataset:
    """Return the data set with the features of the encoder in place of the inputs; by default all splits."""
    encoded = {
        name: Split(network.features(split.inputs), split.targets)
        for name, split in dataset.splits.items()
        if splits is None or name in splits
    }
    if splits is not None:
        encoded |= {"test": encoded["train"]}
    return replace(
        dataset,
        train=encoded["train"],
        test=encoded["test"],
        holdout=encoded.get("holdout"),
        validation=encoded.get("validation"),
        image_shape=None,
    )


def network_from_arrays(model: NetworkConfig, dataset: Dataset, arrays: Mapping[str, NDArray[np.generic]]) -> Network:
    """Return the network whose parameters are `arrays`, by the names of its state dict."""
    encoder = _encoder(model, dataset.n_features, dataset.image_shape, torch.Generator())
    if model.head == LINEAR:
        head: nn.Module = nn.Linear(int(encoder.n_outputs), dataset.n_outputs)
    else:
        sizes = (int(encoder.n_outputs), dataset.n_outputs)
        head = _prototypes(model, *(torch.empty(model.prototypes, size) for size in sizes))
    network = Network(encoder, head)
    names = network.state_dict().keys()
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in names})
    return network.eval()


def load_network(results: Results, run_key: str, data_dir: Path | None = None) -> Network:
    """Return the trained network of a stored run, in evaluation mode; its inputs are scaled as those of its data set.

    Args:
        results: The database.
        run_key: The run's key, or the beginning of it.
        data_dir: Folder of the image archives.

    Raises:
        ResultsError: no such run.
        TrainingError: the run is of another kind, or is not complete.
        DatasetError: its data set cannot be loaded.
    """
    run = results.find_run(run_key)
    model = run.config.model
    if not isinstance(model, NetworkConfig):
        raise TrainingError(f"a run of kind {model.kind} has no network of an encoder and a head")
    if run.state != "complete":
        raise TrainingError(f"the run is {run.state}: it has no network")
    return network_from_arrays(model, load_dataset(run.config.dataset, data_dir), results.load_arrays(run.run_key))


def _encoder(
    model: NetworkConfig, n_features: int, image_shape: tuple[int, int] | None, draws: torch.Generator
) -> Mlp | Conv | VitTiny:
    check_encoder(model, image_shape)
    if model.encoder == "mlp":
        return Mlp(n_features, model.width, model.depth, draws)
    assert image_shape is not None
    if model.encoder == "conv":
        return Conv(image_shape, model.width, model.depth, draws)
    assert model.patch is not None and model.heads is not None and model.attention is not None
    parameters = model.attention_parameters
    return VitTiny(image_shape, model.patch, model.width, model.depth, model.heads, model.attention, parameters, draws)


def _prototypes(model: NetworkConfig, keys: Tensor, values: Tensor) -> PrototypeNetwork:
    return PrototypeNetwork(get_method(model.head), model.head_parameters, keys, values)
