"""Every connection of these tests is to loopback, without TLS."""

import pytest


@pytest.fixture(scope="session")
def no_certificates(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def _without_certificates(no_certificates, monkeypatch):
    """Keep httpx from reading the machine's certificates, 30 ms of computing time for each of hundreds of clients."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", no_certificates)
