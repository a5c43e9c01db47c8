import pytest
from claimed_runs import Runs


@pytest.fixture
def runs():
    """Return an empty set of runs."""
    return Runs()
