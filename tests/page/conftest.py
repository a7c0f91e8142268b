import pytest

from tests.page.node import Scripts


@pytest.fixture(scope="session")
def scripts():
    running = Scripts()
    yield running
    running.close()
