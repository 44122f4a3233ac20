"""Receivers and their fakes use the loopback, whatever proxy the machine's environment names."""

from collections.abc import Iterator

import pytest

from tests.relay.fakes import FakeServer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def hook() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server
