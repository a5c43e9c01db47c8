"""Databases for the tests of the page: their runs were not trained."""

import numpy as np
from stored_runs import run_result

from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.results import CurvePoint

EVIL = '<script>document.title = "owned"</script>'
_EPOCHS = 3


def result(config, accuracy, features, *, state="complete"):
    """Return a result with a curve, keys and values that follow from the seed."""
    generator = np.random.default_rng(config.seed)
    prototypes = config.model.prototypes
    classes = 2 if features == 2 else 10
    loss = [{("train", "loss"): 1 / epoch, ("test", "accuracy"): accuracy * epoch / _EPOCHS} for epoch in (1, 2, 3)]
    curve = tuple(CurvePoint(epoch, values) for epoch, values in enumerate(loss, 1))
    if state == "diverged":
        return run_result(config, state=state, curve=curve)
    arrays = {
        name: generator.normal(size=(prototypes, size)).astype(np.float32)
        for name, size in (("keys", features), ("values", classes))
    }
    metrics = {("test", "accuracy"): accuracy, ("train", "accuracy"): 1.0}
    return run_result(
        config, curve=curve, metrics=metrics, arrays=arrays, n_parameters=prototypes * (features + classes)
    )


def moons_configs(seeds=2):
    """Return runs of three methods, one of them on a grid of power and epsilon."""
    models = [
        {"method": "idw", "prototypes": 4, "power": power, "epsilon": epsilon}
        for power in (2.0, 8.0)
        for epsilon in (0.001, 0.1)
    ]
    models += [{"method": method, "prototypes": n} for method in ("fc_relu", "neg_dist") for n in (2, 4)]
    return [run_config("two_moons", seed=seed, epochs=_EPOCHS, **model) for model in models for seed in range(seeds)]


def digits_configs():
    """Return runs whose keys are points, and runs whose keys are directions."""
    return [
        run_config("digits", method=method, prototypes=3, seed=seed, epochs=_EPOCHS)
        for method in ("idw", "scaled_dot")
        for seed in (0, 1)
    ]


def store(results, name, configs, description="", features=2):
    """Store a sweep with a result for each run; the first settings have the best accuracy."""
    keys = results.register_sweep(name, description, f"name: {name}", configs)
    results.lease(keys)
    finished = [
        result(config, 0.99 - 0.01 * place - 0.003 * config.seed, features) for place, config in enumerate(configs)
    ]
    results.finish(finished, data_sha256="0" * 64)


def filled(path):
    """Return a database with two sweeps of complete runs, one of them with a name that is HTML."""
    results = Results(path)
    store(results, "moons", moons_configs(), "Three methods on Two Moons")
    store(results, f"a{EVIL}", digits_configs(), f"</script><img src=x onerror='document.title=1'>{EVIL}", 64)
    return results


def half_filled(path):
    """Return a database with planned, running, diverged, failed and complete runs of one sweep."""
    results = Results(path)
    configs = moons_configs()
    keys = results.register_sweep("half", "", "name: half", configs)
    results.lease(keys[:8])
    results.finish([result(config, 0.9, 2) for config in configs[:3]], data_sha256="0" * 64)
    results.finish([result(configs[3], 0.9, 2, state="diverged")], data_sha256="0" * 64)
    results.fail(keys[4:6], f"Traceback …\nValueError: {EVIL}")
    return results
