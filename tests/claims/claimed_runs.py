"""Stored runs with chosen results, without training."""

import functools
from dataclasses import replace

import numpy as np
from stored_runs import stored_run

from idwbench.claims.evidence import Evidence
from idwbench.claims.verdicts import CLAIMS, judge
from idwbench.errors import ResultsError
from idwbench.results.frame import runs_frame
from idwbench.runs.config import run_config

SIX_METHODS = ("fc_relu", "scaled_dot", "neg_dist", "gaussian", "inv_dist", "idw")
COMPUTED = dict.fromkeys((6, 7, 8, 9, 10), "holds") | dict.fromkeys((12, 20), "does not hold")


class Runs:
    """A growing set of runs, which is read as a database is; each number may be a function of the seed."""

    def __init__(self):
        self.runs = []
        self.stored_arrays = {}

    def add(self, metrics=None, *, seeds=range(20), dataset="two_moons", state="complete", arrays=None, **settings):
        """Add a run for each seed; scaled dot has the scale of the authors unless another is given."""
        if settings.get("method") == "scaled_dot" and "kind" not in settings:
            settings = {"scale": "prototypes", **settings}
        data = dataset if isinstance(dataset, str) else tuple(dataset.items())
        for seed in seeds:
            config = _config(seed, data, tuple(settings.items()))
            key = f"{len(self.runs):064x}"
            found = {name: float(value(seed) if callable(value) else value) for name, value in (metrics or {}).items()}
            run = stored_run(None, config=config, state=state, train=None, metrics=found)
            self.runs.append(replace(run, run_key=key))
            if arrays is not None:
                self.stored_arrays[key] = arrays(seed)
        return self

    def measured(self, metric, means, prototypes=(16,), **settings):
        """Add runs of methods with a metric about its mean, no two of them equal; those without a mean are left out."""
        of_accuracy = "test" if settings.get("dataset") == "mnist" else "holdout"
        split = of_accuracy if metric == "accuracy" else "train"
        for method, mean in means.items():
            for n in prototypes if mean is not None else ():
                values = {(split, metric): functools.partial(about, mean, method)}
                self.add(values, method=method, prototypes=n, **settings)
        return self

    def run_table(self, *, dataset, facts):
        return runs_frame(run for run in self.runs if run.dataset == dataset)

    def load_runs(self, run_keys):
        return [run for run in self.runs if run.run_key in {*run_keys}]

    def load_arrays(self, run_key):
        if run_key not in self.stored_arrays:
            raise ResultsError("no arrays")
        return self.stored_arrays[run_key]

    @property
    def evidence(self):
        return Evidence(self)  # type: ignore[arg-type]

    def judge(self, number):
        """Return the verdict on one claim alone."""
        return judge(self.evidence, CLAIMS[number - 1])


def about(mean, word, seed):
    return mean + jitter(seed, word)


@functools.cache
def jitter(seed, word):
    """Return a number within ±0.002 that depends on the seed and a word."""
    return 0.002 * float(np.random.default_rng([seed, *word.encode()]).uniform(-1, 1))


@functools.cache
def _config(seed, dataset, settings):
    return run_config(dataset if isinstance(dataset, str) else dict(dataset), seed=seed, **dict(settings))
