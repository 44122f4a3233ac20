"""Keep-alive messages to systemd: only from a healthy process, and only with a watchdog."""

import socket
import threading
import time
from pathlib import Path

import pytest

from streaming.system.systemd_watchdog import systemd_watchdog


def test_a_healthy_process_reports_and_a_hung_one_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "40000")
        with systemd_watchdog(lambda: reasons):
            assert [systemd.recv(64) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            reasons.append("the query balance has shown no progress for 400 s")
            time.sleep(1)  # longer than an interval: a message that was sent before is there
            systemd.setblocking(False)
            while True:
                try:
                    systemd.recv(64)
                except BlockingIOError:
                    break
            time.sleep(0.2)
            with pytest.raises(BlockingIOError):
                systemd.recv(64)


def test_without_a_watchdog_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    with systemd_watchdog(list):
        assert "systemd-watchdog" not in {thread.name for thread in threading.enumerate()}
