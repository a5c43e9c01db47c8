"""Signals that end a command: one line, the right count and exit code, and no run that stays `running`."""

import os
import signal
import threading
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import pytest
from torture_database import record_results, states
from torture_drivers import WAIT_SECONDS, start, sweep_text

pytestmark = pytest.mark.slow

COMMAND = ("sweep", "torture.yaml", "--db", "torture.db", "-j", 2)
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture
def db(tmp_path, sweep):
    """A sweep of four runs that train until an event is set."""
    sweep.write_text(sweep_text(2, 2, epochs=3))
    path = tmp_path / "torture.db"
    record_results(path)
    return path


@pytest.fixture
def events():
    return [get_context("forkserver").Event() for _ in range(3)]


@pytest.fixture
def begin(tmp_path, events):
    """A function that starts a command which `prepare` lets train until the first event, and waits for the second."""

    def begin(prepare, command=COMMAND):
        driver = start(tmp_path / "log", *command, prepare=partial(prepare, *events))
        assert events[1].wait(WAIT_SECONDS)
        return driver

    return begin


def train_until(may_end, is_training, noted, at_every_epoch=True):
    """Let trainings wait, either at every epoch, where they can be stopped, or within one."""
    from idwbench.cli.progress import SweepProgress
    from idwbench.training.fused_engine import ENGINES

    engine, note = ENGINES["fused"], SweepProgress.note

    def wait_for_the_end(configs, dataset, context):
        is_training.set()
        if not at_every_epoch:
            assert may_end.wait(WAIT_SECONDS)
        while not may_end.is_set():
            context.on_epoch(1)
            threading.Event().wait(0.001)
        return engine.train(configs, dataset, context)

    def noting(self, text):
        note(self, text)
        if "another interruption" in text:
            noted.set()

    # A caller in the background of a shell ignores SIGINT, and its children with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    ENGINES["fused"], SweepProgress.note = replace(engine, train=wait_for_the_end), noting


def last_line(driver):
    assert "Traceback" not in driver.output
    return driver.output.splitlines()[-1]


def assert_interrupted(driver, number, db):
    assert driver.wait() == SIGNALS[number]
    assert last_line(driver) == "interrupted: 0 of 4 done; the same command continues"
    assert states(db) == {"planned": 4}


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("is_second", [False, True])
def test_a_signal_releases_the_runs_and_a_second_one_does_not_wait_for_the_epoch(begin, db, events, number, is_second):
    driver = begin(partial(train_until, at_every_epoch=not is_second))
    os.kill(driver.process.pid, number)
    if is_second:
        assert events[2].wait(WAIT_SECONDS)
        os.kill(driver.process.pid, number)
    assert_interrupted(driver, number, db)


def slow_release(may_end, is_training, releasing):
    """Say when runs are being released, and give the caller time for another signal."""
    from idwbench.results.store import Results

    release = Results.release

    def released(self, keys):
        releasing.set()
        threading.Event().wait(0.5)
        release(self, keys)

    train_until(may_end, is_training, releasing)
    Results.release = released


def test_signals_while_the_first_is_handled_leave_no_run_running(begin, db, events):
    driver = begin(slow_release)
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        os.kill(driver.process.pid, number)
    assert events[2].wait(WAIT_SECONDS)
    for _ in range(5):
        threading.Event().wait(0.1)
        os.kill(driver.process.pid, signal.SIGINT)
    assert_interrupted(driver, signal.SIGINT, db)


def ignore(number, *events):
    train_until(*events)
    signal.signal(number, signal.SIG_IGN)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_the_caller_ignores_stays_ignored(begin, db, events, number):
    driver = begin(partial(ignore, number))
    os.kill(driver.process.pid, number)
    events[0].set()
    assert driver.wait() == 0, driver.output
    assert states(db) == {"complete": 4}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_training_of_one_run(begin, tmp_path, number):
    command = ("train", "--dataset", "two_moons", "--prototypes", 2, "--epochs", 1, "--db", "torture.db")
    driver = begin(train_until, command)
    os.kill(driver.process.pid, number)
    assert driver.wait() == SIGNALS[number]
    assert last_line(driver) == "interrupted: nothing new was stored"
    assert states(tmp_path / "torture.db") == {"planned": 1}
