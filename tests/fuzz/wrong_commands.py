"""Wrong command lines: each has one fault among options that are right."""

from __future__ import annotations

import random

NUMBERS = ("x", "", "1.5.2", "1e", "-", "ⅷ", "0x1f", "1,5", "nan nan", "9" * 400)
WORDS = ("nope", "", "IDWX", "\x1b[31m", "é", "a b", "\u202e", "x" * 3000)
NO_FILES = ("absent.pt", "absent.safetensors", ".", "/dev/zero", "sweep.yaml", "table.csv", "a/b/c.pt", "x" * 300, "")
TRAIN = ("train", "--dataset", "two_moons", "--epochs", "1", "--prototypes", "2")

MOONS = ("two_moons.pt", "--x", "0,1")
OF_DATA = ("nosie=0.1", "noise", "noise=x", "=1", "noise=[1", "seed=-1", "train_per_class=1e9", "noise=&a [*a]")
NO_INPUTS = ("1", "1,2,3", "nan,1", "inf,0", "1,,2", "1e400,0", "absent.npy", "sweep.yaml", "mnits:test:0", "::")

# A command that is right up to its last option, whose value is one of these.
FAULTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("train", "--dataset"), (*WORDS, "csv", "MNIST", "data.txt", "absent.csv", "/dev/zero", "sweep.yaml", "..")),
    ((*TRAIN, "--method"), WORDS),
    *(((*TRAIN, name), (*NUMBERS, "-1", "1e400")) for name in ("--epsilon", "--seed", "--batch-size", "--validation")),
    *(((*TRAIN, name), NUMBERS) for name in ("--power", "--learning-rate", "--momentum", "--warmup-epochs")),
    *(((*TRAIN, name), WORDS) for name in ("--engine", "--device", "--optimizer", "--schedule", "--initialisation")),
    ((*TRAIN, "--dataset-option"), (*OF_DATA, "train_per_class=2147483647", "noise=!!python/object:os.system x")),
    ((*TRAIN, "--parameter"), ("power=x", "breadth=3", "power", "epsilon={a: 1}")),
    ((*TRAIN[:-1], "2147483647", "--seed"), ("1", "2")),
    ((*TRAIN, "-o"), ("model.bin", "absent/model.pt", ".", "/dev/zero", "two_moons.pt", "model")),
    ((*TRAIN, "--plugin"), (*NO_FILES, "absent.py")),
    (("train", "--dataset", "table.csv", "--dataset-option"), ("label=lable", "label=[1]", "task=x", "sha256=0")),
    (("sweep",), (*NO_FILES[:4], *NO_FILES[5:], *WORDS)),
    (("sweep", "sweep.yaml", "--retry"), WORDS),
    (("sweep", "sweep.yaml", "--jobs"), (*NUMBERS[:4], "0", "-1")),
    (("report", "--table"), WORDS),
    (("figure",), WORDS),
    (("report", "--table", "one", "--format"), (*WORDS, "CSV", "png")),
    (("report", "--table", "one", "-o"), ("t.html", "t", "absent/t.csv", ".")),
    (("report", "--leaderboard", "one", "--top"), (*NUMBERS, "0")),
    (("publish", "paper", "--json", "-o"), ("sweep.yaml",)),
    (("claims", "--table"), ("one",)),
    (("explain",), (*NO_FILES, *WORDS)),
    (("explain", "two_moons.pt", "--x"), (*WORDS, *NO_INPUTS, "two_moons:tset:0", "two_moons:test:9999")),
    (("explain", *MOONS, "--mask"), (*WORDS, "label=nope", "task=1", "=", "label")),
    (("explain", *MOONS, "--top"), (*NUMBERS[:4], "0")),
    (("explain", *MOONS, "-o"), ("a.bin", "absent/a.png", ".")),
    (("explain", "two_moons.pt", "--prompt"), WORDS[:2]),
    (("patch",), (*NO_FILES, "sine.pt")),
    (("patch", *MOONS, "--dry-run", "--label"), (*WORDS, "2", "-1", "9" * 40)),
    (("patch", "two_moons.pt", "--label", "0", "--dry-run", "--x"), (*WORDS, *NO_INPUTS)),
    (("patch", "two_moons.pt", "--dry-run", "--file"), (*NO_FILES, "absent.csv")),
    (("patch", "two_moons.pt", "--dry-run", "--undo"), (*NUMBERS, "0", "2", "-1")),
    (("patch", *MOONS, "--label", "0", "-o"), ("a.bin", "absent/a.pt", ".", "two_moons.pt")),
    (("patch", *MOONS, "--label", "0", "--dry-run", "--confidence"), (*NUMBERS, "0", "1", "2", "nan")),
    *(((command, "--no-such-option"), ("", "1", "--")) for command in ("train", "sweep", "report", "explain", "patch")),
    ((), ("trian", "TRAIN", "--nope", "\x1b[31m", "sweeps", "-x")),
)


def wrong_command(draw: random.Random) -> list[str]:
    """Return the words of a command line with a fault."""
    begin, values = draw.choice(FAULTS)
    return [*begin, draw.choice(values)]
