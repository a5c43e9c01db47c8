"""Three clusters in a space of three features, with names, and with labels that are words."""

import numpy as np

NAMES = np.array(["width", "height", "depth"])
GROUPS = np.arange(60) % 3
WORDS = np.array(["low", "middle", "top"])[GROUPS]
X = np.random.default_rng(1).normal(size=(60, 3)) * 0.5 + 2 * np.eye(3)[GROUPS]
