"""Stored runs with chosen results, without training."""

import functools
from dataclasses import replace

from stored_runs import stored_run

from idwbench.claims.evidence import Evidence
from idwbench.claims.verdicts import CLAIMS, judge
from idwbench.errors import ResultsError
from idwbench.results.frame import runs_frame
from idwbench.runs.config import run_config

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


@functools.cache
def _config(seed, dataset, settings):
    return run_config(dataset if isinstance(dataset, str) else dict(dataset), seed=seed, **dict(settings))
