"""GLVQ and GMLVQ (sklvq) on the sets and folds of `benchmarks.defaults`, three prototypes for each class.

sklvq 0.1.2 needs a scikit-learn before 1.6 and a NumPy before 2, which idwbench does not run with. The sets are written
here and read in an environment of its own::

    python -c "from benchmarks.defaults import write_sets; write_sets('sets.npz')"
    python -m venv lvq
    lvq/bin/pip install "scikit-learn<1.6" "numpy<2" sklvq
    lvq/bin/python benchmarks/lvq.py sets.npz
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

_FOLDS, _SEEDS, _PER_CLASS = 5, 3, 3


def main(path: Path) -> None:
    """Print the mean accuracy of both methods on each set in %."""
    np.int = int  # type: ignore[attr-defined]  # its name in the NumPy that sklvq was written for
    from sklvq import GLVQ, GMLVQ

    sets = np.load(path)
    names = [name.removesuffix("_inputs") for name in sets if name.endswith("_inputs")]
    for method in (GLVQ, GMLVQ):
        for name in names:
            inputs, labels = sets[f"{name}_inputs"].astype(np.float64), sets[f"{name}_labels"]
            scores = []
            for seed in range(_SEEDS):
                for train, test in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(inputs, labels):
                    model = method(prototype_n_per_class=_PER_CLASS, random_state=seed).fit(
                        inputs[train], labels[train]
                    )
                    scores.append(np.mean(model.predict(inputs[test]) == labels[test]))
            print(f"{method.__name__} {name} {100 * np.mean(scores):.1f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
