"""Databases for the tests of the page: their runs were not trained."""

from itertools import product

import numpy as np
from stored_runs import run_result, trained_result

from idwbench import Results, run_config

EVIL = '<script>document.title = "owned"</script>'
_EPOCHS = 3


def moons_configs():
    """Return runs of three methods, one of them on a grid of power and epsilon."""
    grid = product((2.0, 8.0), (0.001, 0.1))
    models = [{"method": "idw", "prototypes": 4, "power": power, "epsilon": epsilon} for power, epsilon in grid]
    models += [{"method": method, "prototypes": n} for method in ("fc_relu", "neg_dist") for n in (2, 4)]
    return [run_config("two_moons", seed=seed, epochs=_EPOCHS, **model) for model in models for seed in (0, 1)]


def store(results, name, configs, description="", shape=(2, 2)):
    """Store a sweep with a result for each run; the first settings have the best accuracy."""
    keys = results.register_sweep(name, description, f"name: {name}", configs)
    results.lease(keys)
    accuracies = [0.99 - 0.01 * place - 0.003 * config.seed for place, config in enumerate(configs)]
    made = [
        trained_result(config, shape=shape, train=1.0, test=accuracy, holdout=None)
        for config, accuracy in zip(configs, accuracies, strict=True)
    ]
    results.finish(made, data_sha256="0" * 64)


def filled(path):
    """Return a database of two complete sweeps: of points, and of points and directions under a name that is HTML."""
    results = Results(path)
    store(results, "moons", moons_configs(), "Three methods on Two Moons")
    settings = [{"method": method, "seed": seed} for method in ("idw", "scaled_dot") for seed in (0, 1)]
    digits = [run_config("digits", prototypes=3, epochs=_EPOCHS, **given) for given in settings]
    store(results, f"a{EVIL}", digits, f"</script><img src=x onerror='document.title=1'>{EVIL}", (64, 10))
    return results


def searched(path, n=24):
    """Return a database with a search of `n` trials, of which the better ones have the larger power."""
    results = Results(path)
    generator = np.random.default_rng(0)
    powers = generator.uniform(1, 16, n).tolist()
    data = {"name": "two_moons", "validation": 0.3}
    configs = [
        run_config(data, method="idw", prototypes=4, power=power, epochs=_EPOCHS, learning_rate=rate, seed=seed)
        for power, rate in zip(powers, generator.uniform(0.01, 0.1, n).tolist(), strict=True)
        for seed in (0, 1)
    ]
    keys = results.register_sweep("found", "A search", "name: found\nsampler: {optuna: tpe}", configs)
    results.lease(keys)
    values = [config.model.parameters["power"] / 16 - 0.01 * config.seed for config in configs]
    measured = [{("validation", "accuracy"): value, ("test", "accuracy"): 0.5} for value in values]
    found = [run_result(config, metrics=metrics) for config, metrics in zip(configs, measured, strict=True)]
    results.finish(found, data_sha256="0" * 64)
    return results


def half_filled(path):
    """Return a database with planned, running, diverged, failed and complete runs of one sweep."""
    results = Results(path)
    configs = moons_configs()
    keys = results.register_sweep("half", "", "name: half", configs)
    results.lease(keys[:8])
    ended = [*map(trained_result, configs[:3]), run_result(configs[3], state="diverged")]
    results.finish(ended, data_sha256="0" * 64)
    results.fail(keys[4:6], f"Traceback …\nValueError: {EVIL}")
    return results
