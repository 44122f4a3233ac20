"""The machine's local zone, as a test wants it."""

import time
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Call it with the name of a zone; afterwards the zone is what it was."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()
