"""Training with the engine of a run, without a database; and by the optimizers of torch."""

import math
from dataclasses import replace

import torch

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


def torch_optimizer(protocol, tensors):
    """Return the optimizer of torch for a protocol; each step has its own rate."""
    if protocol.optimizer == "sgd":
        return torch.optim.SGD(tensors, momentum=protocol.momentum, weight_decay=protocol.weight_decay)
    is_amsgrad = protocol.optimizer == "adam_amsgrad"
    return torch.optim.Adam(tensors, amsgrad=is_amsgrad, weight_decay=protocol.weight_decay)


def torch_step(optimizer, protocol, loss, rate):
    """Take a step by the clipped gradients of a loss, and return their norm before."""
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], protocol.gradient_clip or math.inf)
    optimizer.param_groups[0]["lr"] = rate
    optimizer.step()
    return norm.item()


def replace_train(monkeypatch, name, train):
    """Let an engine train with another function, and return its own."""
    engine = ENGINES[name][name]
    monkeypatch.setitem(ENGINES[name], name, replace(engine, train=train))
    return engine.train
