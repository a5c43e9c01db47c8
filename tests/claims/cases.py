"""Runs for each empirical claim, on both sides of what it says, and in between.

Each function adds runs of ten seeds. Half of them are a little above and half a little below a mean, which is at the
claimed bound for side 0, well within the claim for side 1, and well beyond it for side −1.
"""

from functools import partial
from itertools import product

import numpy as np
from case_tables import case_table

from idwbench.claims.idw import EPSILONS, POWERS
from idwbench.claims.methods import NEIGHBOURS
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import TwoMoonsConfig

SEEDS = range(10)
DISTANCES = ["neg_dist", "gaussian", "inv_dist"]
DIGITS = {"name": "digits", "validation": 0.2}
VIT = {"kind": "network", "encoder": "vit_tiny", "dataset": DIGITS, "attention": "idw", "attention_epsilon": 1e-3}
DOT = {"kind": "network", "encoder": "vit_tiny", "dataset": DIGITS, "attention": "scaled_dot"}
TEXT = {"kind": "transformer_lm", "dataset": "aesop"}
PLAIN = {"learning_rate": 0.01, "initialisation": "default", "key_bounds": "none"}  # in place of those of tables
EDGES = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0])


def sign(seed):
    return 1 if seed % 2 else -1


def about(mean, spread=0.0):
    return lambda seed: mean + spread * sign(seed)


def study(runs, changed=3, loss=0.001, influence=(1,), n=16, dataset="two_moons", size=2, far=0.001, **settings):
    """Add studies of three patched cases and three that need none; patches of other sizes have hardly an effect."""
    split = "test" if dataset == "mnist" else "holdout"

    def arrays(seed):
        eta, counts, accuracy = np.full((3, 6), np.nan), np.full((3, 6), -1), np.full((3, 6), 0.99)
        eta[:, ::2], counts[:, ::2], accuracy[:, ::2] = 0.1, 0, 0.99
        counts[size, 2] = changed(seed) if callable(changed) else changed
        accuracy[size, ::2] -= loss(seed) if callable(loss) else loss
        decay = np.full((3, 6), far)
        decay[size, : influence[seed % len(influence)]] = 0.4
        return {
            "eta": eta,
            **{f"changed_{split}": counts, f"accuracy_{split}": accuracy},
            **{"influence_edges": EDGES, "influence": decay},
        }

    cases = "wrong" if dataset == "mnist" else "special"
    settings = {"kind": "patch_study", "method": "idw", "prototypes": n, "dataset": dataset, "cases": cases, **settings}
    runs.add({(split, "accuracy_before"): 0.99}, **{"seeds": SEEDS, "arrays": arrays, **settings})


def decay(runs, side):
    for place, epsilon in enumerate(EPSILONS):
        growing, falling = place + 1, len(EPSILONS) - place
        study(runs, influence={1: (growing,), 0: (growing, falling), -1: (falling,)}[side], epsilon=epsilon)


def little_change(runs, side):
    for dataset, n, bound in (*(("two_moons", n, 40) for n in (2, 16, 128)), ("mnist", 20, 100)):
        study(runs, lambda seed, b=bound: b - b // 2 * side + b // 10 * sign(seed), n=n, dataset=dataset)


def no_damage(runs, side):
    for n in (16, 128):
        study(runs, loss=about(0.005 - 0.004 * side, 0.001), n=n)


def cell(runs, accuracy, coverage=0.15, power=2.0, epsilon=1e-3, **settings):
    metrics = {("holdout", "accuracy"): accuracy, ("train", "coverage"): coverage}
    settings = {"seeds": SEEDS, "method": "idw", "prototypes": 16, "power": power, "epsilon": epsilon, **settings}
    runs.add(metrics, **settings)


def instability(runs, side):
    """Beside the median in both directions by turns, and by a little more or less than 0.5 points."""
    seeds = range(12)
    cell(runs, about(0.9), seeds=seeds)

    def accuracy(seed):
        return 0.9 + sign(seed // 2) * (0.005 + 0.004 * side + 0.001 * sign(seed))

    for epsilon in (0.0, 1e-6):
        cell(runs, accuracy, epsilon=epsilon, seeds=seeds)


def density(runs, side):
    data = load_dataset(TwoMoonsConfig()).train.inputs.astype(np.float64)
    nearest = np.sort(np.sqrt(((data[:, None] - data) ** 2).sum(-1)), axis=1)[:, NEIGHBOURS - 1]
    order = data[nearest.argsort()]
    dense, sparse = order[len(order) // 4], order[-len(order) // 4]
    places = {1: (dense,), 0: (dense, sparse), -1: (sparse,)}[side]
    for n in (16, 128):
        keys = [np.tile(place, (n, 1)) for place in places]
        runs.add(seeds=SEEDS, arrays=lambda seed, k=keys: {"keys": k[seed % len(k)]}, method="idw", prototypes=n)


def cost_of_interpretability(runs, side):
    for (place, power), epsilon in product(enumerate(POWERS), EPSILONS):
        slope = {1: lambda seed: 1, 0: sign, -1: lambda seed: -1}[side]
        cell(runs, lambda seed, s=slope, p=place: 0.9 + 0.01 * s(seed) * p, about(0.1 * place), power, epsilon)
    for power, change in ((2.0, 0), (64.0, 1)):
        accuracy = about(0.88 + 0.05 * side * change, 0.01 * change)
        agreement, covers = about(0.9 - 0.2 * side * change, 0.02 * change), about(23 + 2 * side * change, 0.5 * change)
        metrics = {("test", "accuracy"): accuracy, ("train", "key_agreement"): agreement, ("train", "coverage"): covers}
        runs.add(metrics, seeds=SEEDS, method="idw", prototypes=20, dataset="mnist", power=power)


def lookups(runs, recall, dimensions, items, seeds=SEEDS, **data):
    """Add tables of both kinds that are compared; recall is a function of similarity, dimensions, items and seed."""
    kinds = {"idw": "none", "inner_product": "sqrt_dimensions"}
    for d, n, (similarity, scaling) in product(dimensions, items, kinds.items()):
        settings = {"kind": "hash_table", "similarity": similarity, "scaling": scaling, "seeds": seeds}
        dataset = {"name": "lookup", "items": n, "dimensions": d, "noise": 0.2, **data}
        runs.add({("test", "recall"): partial(recall, similarity, d, n)}, dataset=dataset, **settings)


def capacity(runs, side):
    """Recall falls from 1 to 0 at once, after 16 items or after another number."""
    most = {1: lambda seed: 64, 0: lambda seed: 64 if seed % 2 else 4, -1: lambda seed: 4}[side]

    def recall(name, dimensions, n, seed):
        return float(n <= (most(seed) if name == "idw" else 16))

    lookups(runs, recall, (16, 64), (2, 4, 8, 16, 32, 64, 128))


BASES = {
    "": {},
    "mnist": {"dataset": "mnist", "prototypes": 20},
    "cell": {"method": "idw", "prototypes": 16, "power": 2.0, "epsilon": 1e-3},
    "vit": VIT,
    "dot": DOT,
    "text": TEXT,
    "encoder": {"kind": "network", "dataset": DIGITS},
    "formed": {"method": "idw", "prototypes": 20, "epochs": 50, "batch_size": 16, **PLAIN},
}


def from_table(rows):
    """Return the function that adds the runs of a claim in `assets/claimed_runs.yaml`."""

    def add(runs, side):
        for row in rows:
            settings = {"base": "", "seeds": len(SEEDS), **row}
            base, seeds = settings.pop("base"), range(settings.pop("seeds"))
            metrics = {}
            for name, number in settings.pop("metrics").items():
                mean, step, spread = number if isinstance(number, list) else (number, 0, 0)
                metrics[tuple(name.split("."))] = about(mean + step * side, spread)
            axes = [value if isinstance(value, list) else [value] for value in settings.values()]
            for values in product(*axes):
                chosen = {**BASES[base], **dict(zip(settings, values, strict=True))}
                if base != "formed":
                    runs.add(metrics, seeds=seeds, **chosen)
                    continue
                for seed in seeds:  # of the data
                    of_seed = {name: value(seed) for name, value in metrics.items()}
                    runs.add(of_seed, seeds=[0], dataset={"name": "digits", "seed": seed}, **chosen)

    return add


CASES = {
    **{number: from_table(rows) for number, rows in case_table("claimed_runs").items()},
    **{11: decay, 13: little_change, 19: no_damage, 21: instability, 22: density, 33: capacity},
    24: cost_of_interpretability,
}
