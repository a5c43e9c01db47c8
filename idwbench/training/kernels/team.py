"""A team of threads that share the matrix products of one training.

The first member trains; the others wait for jobs and compute their rows of each product. Every number has the same bits
as with one thread: no sum is divided, and shares are whole blocks of rows, which BLAS cuts into the same tiles. Members
wait for each other by semaphores of the system, without busy loops.
"""

import sys
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.jit import kernel

__all__ = [
    "CAN_SHARE",
    "GRADIENT",
    "LEAST_PRODUCTS",
    "MOST_MEMBERS",
    "SIMILARITIES",
    "STOP",
    "TEAM_NUMBERS",
    "Team",
    "begin",
    "end",
    "finish",
    "job_done",
    "share",
    "shares",
    "start",
    "team_in",
    "team_of",
    "wait_for_job",
]

# Rows of 8 numbers. Row 0: number of members, job, number of inputs; row 1: semaphore of finished shares; row 1 + m:
# semaphore of the jobs of member m.
Team = NDArray[np.int64]

STOP, SIMILARITIES, GRADIENT = range(3)
MOST_MEMBERS = 8
# Rows of a block, a multiple of the tiles of BLAS.
BLOCK = 64
# Multiplications of a product from which it is shared: about half a millisecond.
LEAST_PRODUCTS = 2**25

_ROW_BYTES = 64  # a cache line; a semaphore has 32 bytes
TEAM_NUMBERS = (1 + MOST_MEMBERS) * 8

CAN_SHARE = sys.platform == "linux" and not getattr(numba.config, "DISABLE_JIT", False)

if CAN_SHARE:
    import ctypes

    _types = cast(Any, numba.types)
    _post = _types.ExternalFunction("sem_post", _types.int32(_types.intp))
    _wait = _types.ExternalFunction("sem_wait", _types.int32(_types.intp))

    @kernel
    def _post_row(team: Team, row: int) -> None:
        _post(team.ctypes.data + row * _ROW_BYTES)

    @kernel
    def _wait_for_row(team: Team, row: int) -> None:
        # It also ends, with another result, when the system handled a signal.
        while _wait(team.ctypes.data + row * _ROW_BYTES) != 0:
            pass

    def start(team: Team) -> None:
        """Make a team of one member."""
        library = ctypes.CDLL(None, use_errno=True)
        for row in range(1, 1 + MOST_MEMBERS):
            if library.sem_init(ctypes.c_void_p(team.ctypes.data + row * _ROW_BYTES), 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "sem_init")
        team[0] = 1

    def end(team: Team) -> None:
        """Let all other members stop."""
        library = ctypes.CDLL(None)
        team[1] = STOP
        for member in range(1, int(team[0])):
            library.sem_post(ctypes.c_void_p(team.ctypes.data + (1 + member) * _ROW_BYTES))
        team[0] = 1

else:

    @kernel
    def _post_row(team: Team, row: int) -> None:
        """Do nothing."""

    @kernel
    def _wait_for_row(team: Team, row: int) -> None:
        """Do nothing."""

    def start(team: Team) -> None:
        """Make a team of one member."""
        team[0] = 1

    def end(team: Team) -> None:
        """Let all other members stop."""
        team[0] = 1


def team_in(labels: NDArray[np.int64]) -> Team:
    """Return the team at the end of `Scratch.labels`."""
    return labels[len(labels) - TEAM_NUMBERS :]


team_of = kernel(team_in)


@kernel
def shares(team: Team, n_inputs: int, n_prototypes: int, n_features: int) -> bool:
    """Return whether products of these sizes are shared."""
    return bool(team[0] > 1 and n_inputs * n_prototypes * n_features >= LEAST_PRODUCTS)


@kernel
def share(team: Team, member: int, n_rows: int) -> tuple[int, int]:
    """Return the first row of a member's share, and the one after its last."""
    n_members, n_blocks = team[0], (n_rows + BLOCK - 1) // BLOCK
    first, last = member * n_blocks // n_members, (member + 1) * n_blocks // n_members
    return min(first * BLOCK, n_rows), min(last * BLOCK, n_rows)


@kernel
def begin(team: Team, job: int, n_inputs: int) -> None:
    """Give the other members a job."""
    team[1], team[2] = job, n_inputs
    for member in range(1, team[0]):
        _post_row(team, 1 + member)


@kernel
def finish(team: Team) -> None:
    """Wait until the other members have finished their shares."""
    for _ in range(1, team[0]):
        _wait_for_row(team, 1)


@kernel
def wait_for_job(team: Team, member: int) -> tuple[int, int]:
    """Wait for the next job of a member, and return it with the number of inputs."""
    _wait_for_row(team, 1 + member)
    return team[1], team[2]


@kernel
def job_done(team: Team) -> None:
    """Say that a member has finished its share."""
    _post_row(team, 1)
