"""Training with the engine of a run, without a database."""

from dataclasses import replace

from idwbench.training import fused_engine, torch_engine
from idwbench.training.engine import Context
from idwbench.training.selection import engine_of

ENGINES = {"fused": fused_engine.ENGINES, "torch": torch_engine.ENGINES}


def train_runs(configs, dataset, **settings):
    """Train runs of one stack; the settings are those of `Context`."""
    context = Context(**settings)
    return engine_of(configs[0], context).train(configs, dataset, context)


def train_run(config, dataset, **settings):
    """Train one run."""
    (result,) = train_runs([config], dataset, **settings)
    return result


def replace_train(monkeypatch, name, train):
    """Let an engine train with another function, and return its own."""
    engine = ENGINES[name][name]
    monkeypatch.setitem(ENGINES[name], name, replace(engine, train=train))
    return engine.train
