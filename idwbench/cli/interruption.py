"""Signals that end a command: one line with what was done, and the exit code 128 plus the signal's number."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer

from idwbench.cli.output import echo
from idwbench.errors import IdwbenchError

__all__ = ["interruptible"]

# Ctrl-C, the end given by `kill`, `timeout` and cluster schedulers, and a closed terminal (not on Windows).
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# A terminal and a shell may both send a signal for one press of a key.
_SECONDS_APART = 0.3
# How `idwbench.sweep.threads.Threads` calls its threads.
_TRAINING = "idwbench_"

# It would print the traceback of an interruption that comes while it closes a connection.
logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())


@contextmanager
def interruptible(status: Callable[[], str]) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into one line with the `status`, and exit code 130, 143 or 129.

    So does an error that a library makes of an interruption. One that is lost in a callback, as while a compiled
    function is loaded, is sent again.

    A signal that the caller ignores stays ignored: SIGHUP under ``nohup``, SIGINT in background jobs of a shell. The
    handlers are restored at the end.
    """
    threads = set(threading.enumerate())  # those of a caller, if the command is run in its process
    received: list[int] = []
    last, is_ending = -_SECONDS_APART, False
    hook, timers = sys.unraisablehook, list[threading.Timer]()

    def receive(number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt`, unless the previous one was just raised or the command is ending."""
        nonlocal last
        if not is_ending and time.monotonic() - last >= _SECONDS_APART:
            last = time.monotonic()
            received.append(number)
            raise KeyboardInterrupt

    def repeat(unraisable: Any) -> None:
        """Send an interruption again that could not be raised in the code which was interrupted."""
        if not (received and isinstance(unraisable.exc_value, KeyboardInterrupt)):
            hook(unraisable)
            return
        timers.append(threading.Timer(_SECONDS_APART, signal.raise_signal, (received.pop(),)))
        timers[-1].start()

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # Python allows handlers in no other
        heard = [number for number in _SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
        before = {number: signal.signal(number, receive) for number in heard}
        sys.unraisablehook = repeat
    try:
        yield
    except BaseException as error:
        if not _is_interruption(error):
            raise
        is_ending = True
        try:
            done = status()
        except IdwbenchError:  # such as a database that does not exist yet
            done = "nothing was stored"
        echo(f"interrupted: {done}", err=True)
        _exit(128 + (received[0] if received else signal.SIGINT), set(threading.enumerate()) - threads)
    finally:
        sys.unraisablehook = hook
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_interruption(error: BaseException | None) -> bool:
    """Return whether an error is an interruption, or came of one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None


def _exit(code: int, threads: set[threading.Thread]) -> None:
    """End with `code`, without waiting for trainings among the `threads` that the command has started."""
    if any(thread.is_alive() and thread.name.startswith(_TRAINING) for thread in threads):
        # After a second signal trainings are not waited for, but the interpreter would wait for their threads.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    raise typer.Exit(code) from None
