"""Clocks that are off: no wrong page, no page lost, and each told once."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS
from streaming.simulator import Simulation, load_scenario
from tests.engine import Stream
from tests.queries.logs import MINUTE, SECOND, START

pytestmark = pytest.mark.replay

Event = tuple[str, dict[str, Any]]
SLICE_MS = 2 * SECOND


@cache
def log_of(scenario: str) -> tuple[Event, ...]:
    return tuple(Simulation(load_scenario(scenario), 1, START).events(10 * MINUTE))


def is_of(who: str, topic: str, event: dict[str, Any], broken: str) -> bool:
    """Whether the event's time is that of this machine's clock."""
    if who == "broker":
        return topic in (HEARTBEATS, PULLS) and event["broker_name"] == "broker-b"
    if who == "client":
        return topic == PULLS and event["client_id"] == broken
    return topic == CLOCKS if who == "run" else topic in (CLOCKS, HEARTBEATS, PULLS)


def alerts_of(scenario: str, who: str, off_s: int, delay_s: int = 0) -> list[dict[str, Any]]:
    """As Kafka stamps the messages, in slices of two seconds; one machine's clock is off, or all come late."""
    stream, rows, part, source = Stream(), [], [], "run" if who == "run" else "collector"
    clients = sorted({event["client_id"] for topic, event in log_of(scenario) if topic == PULLS})
    true_ms: list[int] = []

    def ingest(times: Iterator[int]) -> Any:
        return lambda _: next(times) + delay_s * SECOND

    def flush() -> None:
        rows.extend(stream.feed(part, ingest(iter(true_ms))).get("alerts", []))
        part.clear()
        true_ms.clear()

    slice_of = 0
    for topic, event in log_of(scenario):
        at_ms = event["event_time_ms"]
        if at_ms // SLICE_MS > slice_of:
            flush()
            slice_of = at_ms // SLICE_MS
        reported = {**event, "source": source} if topic == CLOCKS else event
        if is_of(who, topic, event, clients[0]):
            reported = {**reported, "event_time_ms": at_ms + off_s * SECOND}
        part.append((topic, reported))
        true_ms.append(at_ms)
    flush()
    return rows


def reported(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(row["kind"], row["cause"]) for row in rows if row["fired_at"] and not row["inhibited_by"]}


OFF = [-3600, -150, -95, -45, -20, -1, 1, 45, 150, 3600]


@pytest.mark.parametrize("off_s", OFF)
@pytest.mark.parametrize("who", ["broker", "client", "collector", "run"])
def test_a_clock_that_is_off_pages_nobody_and_is_reported_itself(who: str, off_s: int) -> None:
    rows = alerts_of("healthy", who, off_s)
    others = reported(rows) - {("clock_skew", "clock_ahead"), ("clock_skew", "clock_out_of_step")}
    is_refused = who in ("collector", "run") and off_s > 60  # here no other clock steps in
    assert others == ({("cluster_no_data", "no_clock")} if is_refused else set())
    if abs(off_s) >= 45 and who != "run":
        skews = [row for row in rows if row["kind"] == "clock_skew" and row["state"] == "FIRING"]
        assert [row["labels"] for row in skews if row["reason"] == "hold_over"] == [skews[0]["labels"]]
        assert f"{abs(off_s)} s {'ahead' if off_s > 0 else 'behind'}" in skews[0]["summary"]


@pytest.mark.parametrize("off_s", OFF)
@pytest.mark.parametrize("who", ["broker", "client", "collector"])
@pytest.mark.parametrize(
    ("scenario", "page"), [("pull_stopped", "pull_stopped"), ("consume_disabled", "consume_disabled")]
)
def test_what_starves_is_reported_whoevers_clock_is_off(scenario: str, page: str, who: str, off_s: int) -> None:
    if who == "collector" and off_s > 60:
        pytest.skip("a time from the future is not taken; run keeps the time of such a cluster")
    assert ("starved_queue", page) in reported(alerts_of(scenario, who, off_s))


@pytest.mark.parametrize("off_s", [-3600, -150, -95, 95, 150])
def test_a_broker_that_is_off_is_known_in_a_log_that_is_written_at_once_too(off_s: int) -> None:
    """Kafka has all of it at one time: what tells is the order."""
    log = [
        (topic, {**event, "event_time_ms": event["event_time_ms"] + off_s * SECOND} if is_b else event)
        for topic, event in log_of("healthy")
        for is_b in [is_of("broker", topic, event, "")]
    ]
    end_ms = max(event["event_time_ms"] for _, event in log) + SECOND
    fired = {
        (row["kind"], row["broker_name"])
        for row in Stream().feed(log, lambda _: end_ms)["alerts"]
        if row["state"] == "FIRING"
    }
    assert fired == {("clock_skew", "broker-b")}
