"""The engine of LSTM language models, with the recording of their training."""

from __future__ import annotations

import torch

from idwbench.data.dataset import Dataset
from idwbench.dual.lstm import lstm_layers, record_lstm
from idwbench.dual.recorder import Recorder
from idwbench.models.language import NextTokenModel
from idwbench.models.lstm import LstmLanguageModel
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.training.language_model_engine import NextTokenEngine, steps_of_epoch
from idwbench.training.module_engine import recording_facts

__all__ = ["LstmEngine"]


class LstmEngine(NextTokenEngine):
    """Trains the runs of kind ``lstm_lm``.

    A recorded run has the layers ``lstm.input``, ``lstm.recurrent`` and ``head``. The embedding of tokens is not
    recorded: its keys would be the numbers of the tokens.
    """

    def initial_model(self, config: RunConfig, vocabulary_size: int, draws: torch.Generator) -> NextTokenModel:
        """Return the LSTM of a run with its initial parameters."""
        assert isinstance(config.model, LstmConfig)
        return LstmLanguageModel.of(config.model, vocabulary_size, draws)

    def recorder(self, config: RunConfig, dataset: Dataset, model: NextTokenModel) -> Recorder | None:
        """Return the recorder of a run that is to be recorded, otherwise None.

        Raises:
            RecordingError: there is no folder for recordings.
            FullDiskError: there is not enough disk space.
        """
        settings, protocol = config.model, config.protocol
        assert isinstance(settings, LstmConfig) and isinstance(model, LstmLanguageModel)
        if not settings.record:
            return None
        steps = protocol.epochs * steps_of_epoch(len(dataset.train), settings.context, protocol.batch_size)
        recorder = self.recordings.recorder(
            {**lstm_layers(model.lstm), "head": model.head},
            recording_facts(config, dataset),
            steps=steps,
            slots=steps * protocol.batch_size * settings.context,
            dtype=settings.record_dtype,
        )
        record_lstm(recorder, model.lstm)
        return recorder
