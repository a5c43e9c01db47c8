import pytest
from claimed_runs import Runs

from idwbench.report import statistics


@pytest.fixture(autouse=True)
def few_resamples():
    """Spare the tests of verdicts, which do not depend on the intervals, nine of ten resamples of each bootstrap."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(statistics, "_RESAMPLES", 999)
        yield


@pytest.fixture
def runs():
    """Return an empty set of runs."""
    return Runs()
