import pytest
from torture_drivers import start_warm_server


@pytest.fixture(scope="session", autouse=True)
def _warm():
    start_warm_server()


@pytest.fixture
def sweep(tmp_path):
    return tmp_path / "torture.yaml"
