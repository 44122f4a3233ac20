"""The relay and real Alertmanagers: each replica learns everything, one that lost its data within a resend."""

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from conf.settings import Settings
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.relay.fakes import FakeServer
from tests.relay.stage import START_MS, Row, alert_row
from tests.relay.test_relay import relay_of
from tests.support.alertmanager import Alertmanager

pytestmark = pytest.mark.real


@pytest.fixture
def replicas(tmp_path: Path, hook: FakeServer) -> Iterator[list[Alertmanager]]:
    """Two that know nothing of each other."""
    started: list[Alertmanager] = []
    try:
        for name in "ab":
            started.append(Alertmanager(tmp_path / name, hook.url))
        yield started
    finally:
        for replica in started:
            replica.stop()


def incident(name: str) -> str:
    return f"{name}-{START_MS}"


def row(name: str, state: str, at_ms: int) -> Row:
    """Alerts that differ in identity, which to Alertmanager is their labels."""
    return alert_row(name, state, at_ms, topic=name)


def test_a_replica_that_lost_everything_learns_what_is_open_and_only_that(
    tmp_path: Path, hook: FakeServer, replicas: list[Alertmanager]
) -> None:
    oncall = Settings.load(
        oncall={
            "receivers": [{"name": "am", "type": "alertmanager", "urls": [replica.url for replica in replicas]}],
            "routes": [{"name": "all", "receivers": ["am"]}],
            "resend_seconds": 1,
            "backoff_max_seconds": 1,
            "poll_seconds": 0.1,
        }
    ).oncall
    writer = DeltalakeWriter(tmp_path / "warehouse")
    batches = iter(range(10))
    relay = relay_of(oncall, tmp_path / "warehouse")

    def write(*rows: Row) -> None:
        append_rows(writer, {"alerts": list(rows)}, "app", next(batches))
        relay.look()

    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            relay.step()
        relay.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        write(row("m", "FIRING", START_MS), row("n", "FIRING", START_MS))
        for replica in replicas:
            replica.wait_for_alerts(incident("m"), incident("n"))
        replicas[0].stop()
        write(row("n", "RESOLVED", START_MS + 5_000), row("o", "FIRING", START_MS + 5_000))
        replicas[1].wait_for_alerts(incident("m"), incident("o"))
        empty = Alertmanager(tmp_path / "empty", hook.url, port=urlsplit(replicas[0].url).port)
        replicas.append(empty)
        empty.wait_for_alerts(incident("m"), incident("o"))
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
