"""Training with a recorder: the recording is finished, kept to be continued, or deleted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import FullDiskError
from idwbench.training.module_training import ModuleTraining, Trained

__all__ = ["recorded_training"]


def recorded_training(
    training: ModuleTraining, on_epoch: Callable[[int], None]
) -> tuple[Trained, dict[str, NDArray[np.generic]], dict[tuple[str, str], float]]:
    """Train; also return the array that points to the recording, and for Adam the largest residual share of a layer.

    The recording of an interrupted training is kept, to be continued. That of a diverged one is deleted, and one that
    filled the disk before there was a checkpoint, from which it could be continued. Without a recorder there are no
    arrays and metrics.

    Raises:
        FullDiskError: there is no room for a checkpoint or the recording.
        OutputError: a checkpoint or the recording cannot be written.
    """
    recorder = training.recorder
    if recorder is None:
        return training.train(on_epoch), {}, {}
    try:
        trained = training.train(on_epoch)
        if trained.diverged_epoch is not None:
            recorder.discard()
            return trained, {}, {}
        pointer = recorder.finish()
    except FullDiskError:
        if training.checkpoint is None or not training.checkpoint.path.exists():
            recorder.discard()
        raise
    finally:
        recorder.close()
    shares = [layer.residual_share for layer in recorder.facts.layers.values() if layer.residual_share is not None]
    return trained, {"recording": pointer}, {("train", "residual_share"): max(shares)} if shares else {}
