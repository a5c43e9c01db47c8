import os
import signal
import threading

import pytest
import typer

from idwbench.cli.interruption import Interruption, interruptible
from idwbench.errors import NoResultsError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _heard_signals():
    """As in a shell: nothing is ignored."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_becomes_one_line_and_an_exit_code(capsys, number):
    with pytest.raises(typer.Exit) as ended, interruptible(lambda: "2 of 6 done"):
        os.kill(os.getpid(), number)
        threading.Event().wait(60)
    assert ended.value.exit_code == 128 + number
    assert capsys.readouterr().err == "interrupted: 2 of 6 done\n"


def test_handlers_are_restored_at_the_end_and_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with pytest.raises(ValueError), interruptible(lambda: ""):
        assert [signal.getsignal(number) != before[number] for number in SIGNALS] == [True, True, False]
        os.kill(os.getpid(), signal.SIGHUP)
        raise ValueError
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def test_the_line_is_whole_after_another_signal_and_if_the_status_cannot_be_read(capsys):
    def status():
        os.kill(os.getpid(), signal.SIGTERM)
        raise NoResultsError("does not exist")

    with pytest.raises(typer.Exit) as ended, interruptible(status):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(60)
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted: nothing was stored\n"


def test_another_thread_may_use_it_without_signals_and_one_of_the_caller_does_not_end_its_process(capsys):
    seen, end = [], threading.Event()

    def work():
        with interruptible(lambda: ""):
            seen.append(signal.getsignal(signal.SIGTERM))
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with pytest.raises(typer.Exit) as ended, interruptible(lambda: "2 of 6 done"):
            raise Interruption
    finally:
        end.set()
        thread.join()
    assert (ended.value.exit_code, seen) == (130, [signal.default_int_handler])
