"""Threads that help one large run with its matrix products; the results have the same bits as without them."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from idwbench.training.kernels.products import work_in_team
from idwbench.training.kernels.scratch import Matrix, Scratch
from idwbench.training.kernels.team import MOST_MEMBERS, end, start, team_in

__all__ = ["product_team", "work_on_nothing"]


@contextmanager
def product_team(threads: int, keys: Matrix, scratch: Scratch) -> Iterator[None]:
    """Let `threads` threads in all compute the products of what is trained meanwhile in `scratch`.

    Args:
        threads: Number of threads, with the one that trains; fewer are used if the system refuses to start them.
        keys: The keys that are trained (prototypes, features).
        scratch: Memory of the run, with room for shared products.
    """
    if threads <= 1:
        yield
        return
    team, helpers = team_in(scratch.labels), list[Thread]()
    start(team)
    try:
        for member in range(1, min(threads, MOST_MEMBERS)):
            # A daemon does not keep a process alive whose main thread was interrupted twice.
            thread = Thread(target=work_in_team, args=(member, keys, scratch), name="idwbench-products", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads
                break
            helpers.append(thread)
            team[0] = 1 + len(helpers)
        yield
    finally:
        end(team)
        for thread in helpers:
            thread.join()


def work_on_nothing(keys: Matrix, scratch: Scratch) -> None:
    """Compile what other threads do, or load it from the cache."""
    team = team_in(scratch.labels)
    start(team)
    team[0] = 2
    end(team)
    work_in_team(1, keys, scratch)
