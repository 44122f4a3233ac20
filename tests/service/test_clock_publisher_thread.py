"""The clock publisher's thread: nothing that a tick meets ends it, for then no time would pass."""

import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from conf.settings import Settings
from streaming.service.clock_publisher import ClockPublisher, ClockTail


def test_an_error_that_nobody_thought_of_is_logged_and_the_next_tick_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = ClockPublisher(Settings.load(clock={"interval_seconds": 0.1}))
    monkeypatch.setattr(ClockTail, "read", lambda *_: [])
    tried, again = [0], threading.Event()

    def ticks(*_: Any) -> list[Any]:
        tried[0] += 1
        if tried[0] == 1:
            raise OverflowError("timestamp too large")
        again.set()
        return []

    monkeypatch.setattr(keeper, "ticks", ticks)
    with capture_logs() as logs:
        keeper.start()
        assert again.wait(20)
        assert keeper.is_alive()
        keeper.stop()
    assert [(line["log_level"], line["event"]) for line in logs] == [("error", "clock event not sent")]
    assert not keeper.is_alive()
