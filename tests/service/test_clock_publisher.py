"""When `run` keeps a cluster's time for it, and when it stops."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.tail import Tail
from streaming.queries.events import RUN
from streaming.queries.rows import CLOCK_HEARD, CLOCK_NEEDED
from streaming.service.clock_publisher import (
    FORGOTTEN_MS,
    LIVE_MS,
    PATIENCE_SECONDS,
    ClockPublisher,
    CollectorClock,
    clock_event,
)
from streaming.text.times import DAY
from tests.conftest import settings_for
from udfs.alerts.rulebook import CANARY_CLUSTER


def asking(*, newest_ms: int | None = None, is_wanted: bool = True) -> dict[str, list[dict[str, Any]]]:
    now_ms = time.time_ns() // 1_000_000
    return {CLOCK_NEEDED: [{"cluster": "c", "is_wanted": is_wanted, "newest_ms": newest_ms or now_ms}]}


@pytest.fixture
def keeper() -> ClockPublisher:
    return ClockPublisher(Settings.load())


def test_a_cluster_that_has_asked_long_enough_gets_ticks_for_its_brokers(keeper: ClockPublisher) -> None:
    keeper.listen(asking() | {"memberships": [{"cluster": "c", "broker_name": "broker-a"}]})
    now = time.monotonic()
    assert keeper.wanted(now) == []
    assert keeper.wanted(now + PATIENCE_SECONDS + 1) == [("c", ["broker-a"])]


def test_it_goes_on_when_all_agents_fall_silent_and_ends_when_another_clock_is_heard(keeper: ClockPublisher) -> None:
    keeper.listen(asking())
    later = time.monotonic() + 3_600
    assert keeper.wanted(later) == [("c", [])]
    keeper.listen(asking(is_wanted=False))
    assert keeper.wanted(later) == []


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the wall clock that the publisher sees, in epoch ms."""
    return lambda at_ms: monkeypatch.setattr("streaming.service.clock_publisher.wall_ms", lambda: at_ms)


def test_the_time_of_a_replay_is_not_moved(keeper: ClockPublisher) -> None:
    keeper.listen(asking(newest_ms=time.time_ns() // 1_000_000 - LIVE_MS - 1_000))
    assert keeper.wanted(time.monotonic() + 3_600) == []


def test_its_tick_is_a_good_clock_event() -> None:
    now_ms = time.time_ns() // 1_000_000
    event, reasons = decode(CLOCKS, msgspec.json.encode(clock_event("c", ["broker-a"], now_ms)), now_ms)
    assert reasons == []
    assert event.brokers_asked == event.brokers_answered == ["broker-a"]


SILENT_MS = 60_000
ROUND_MS = 10_000


def hearing(*, event_time_ms: int, source: str = "collector") -> dict[str, list[dict[str, Any]]]:
    return {CLOCK_HEARD: [{"cluster": "c", "newest_ms": event_time_ms, "source": source}]}


@pytest.fixture
def collected(keeper: ClockPublisher, wall: Callable[[int], None]) -> tuple[ClockPublisher, int]:
    """A keeper that has heard two rounds of a live collector, and the time of the second."""
    began_ms = time.time_ns() // 1_000_000
    for at_ms in (began_ms, began_ms + ROUND_MS):
        wall(at_ms)
        keeper.listen(hearing(event_time_ms=at_ms) | {"memberships": [{"cluster": "c", "broker_name": "broker-a"}]})
    return keeper, began_ms + ROUND_MS


def test_a_dead_collector_is_spoken_for_and_no_broker_is_taken_as_heard(
    collected: tuple[ClockPublisher, int],
) -> None:
    keeper, last_ms = collected
    assert keeper.ticks(time.monotonic(), last_ms + SILENT_MS - 1) == []
    assert keeper.ticks(time.monotonic(), last_ms + SILENT_MS) == [
        {
            "cluster": "c",
            "source": RUN,
            "brokers_asked": ["broker-a"],
            "brokers_answered": [],
            "event_time_ms": last_ms + SILENT_MS,
        }
    ]


def test_a_collector_that_dies_as_the_clock_is_set_back_is_missed_as_soon_as_ever(
    collected: tuple[ClockPublisher, int], wall: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, last_ms = collected
    pace_ms = time.monotonic_ns() // 1_000_000
    for later_ms in (1_000, SILENT_MS + 2_000):
        wall(last_ms + later_ms - 3_600_000)
        monkeypatch.setattr("streaming.service.clock_publisher._pace_ms", lambda later_ms=later_ms: pace_ms + later_ms)
        now_ms = keeper.now_ms()
    assert abs(now_ms - last_ms - SILENT_MS) < 10_000
    assert keeper.unheard(now_ms + 10_000) == [("c", ["broker-a"])]
    keeper.note_stamp(last_ms + SILENT_MS, last_ms + SILENT_MS - 3_600_000)
    assert abs(keeper.now_ms() - last_ms - later_ms) < 10_000


def test_the_canary_is_not_missed_between_two_injections(keeper: ClockPublisher, wall: Callable[[int], None]) -> None:
    began_ms = time.time_ns() // 1_000_000
    for at_ms in range(began_ms, began_ms + 900_000, 300_000):
        wall(at_ms)
        heard = {"cluster": CANARY_CLUSTER, "newest_ms": at_ms, "source": "canary"}
        wanted = {"cluster": CANARY_CLUSTER, "newest_ms": at_ms, "is_wanted": True}
        keeper.listen({CLOCK_HEARD: [heard], CLOCK_NEEDED: [wanted]})
        assert keeper.ticks(time.monotonic() + PATIENCE_SECONDS, at_ms + 200_000) == []


def test_a_forgotten_cluster_gets_no_tick_though_the_other_query_is_still_at_what_came_before(
    keeper: ClockPublisher,
) -> None:
    now, now_ms = time.monotonic(), time.time_ns() // 1_000_000
    keeper.listen(asking(newest_ms=now_ms))
    assert keeper.ticks(now + PATIENCE_SECONDS + 1, now_ms) != []
    keeper.listen(hearing(event_time_ms=now_ms + 10, source="forget"))
    keeper.listen(asking(newest_ms=now_ms + 10) | hearing(event_time_ms=now_ms + 5))
    keeper.listen(hearing(event_time_ms=now_ms + 6))
    assert keeper.ticks(now + 3_600, now_ms + SILENT_MS) == []
    keeper.listen(asking(newest_ms=now_ms + 11))
    assert [tick["cluster"] for tick in keeper.ticks(now + 3_600, now_ms + 11)] == ["c"]


def test_the_ticks_end_when_the_collector_is_back_and_our_own_are_not_taken_for_it(
    collected: tuple[ClockPublisher, int], wall: Callable[[int], None]
) -> None:
    keeper, last_ms = collected
    wall(last_ms + 2 * SILENT_MS)
    keeper.listen(hearing(event_time_ms=last_ms + 2 * SILENT_MS - 1, source=RUN))
    assert keeper.unheard(last_ms + 2 * SILENT_MS) == [("c", ["broker-a"])]
    keeper.listen(hearing(event_time_ms=last_ms + 2 * SILENT_MS))
    assert keeper.unheard(last_ms + 2 * SILENT_MS + 1) == []


def test_what_the_collector_published_last_does_not_pass_for_agents(collected: tuple[ClockPublisher, int]) -> None:
    """Half a round may be newer than its last clock event, so the query asks for a clock once; agents ask on."""
    keeper, last_ms = collected
    keeper.listen(asking(newest_ms=last_ms))
    later = time.monotonic() + 3_600
    (tick,) = keeper.ticks(later, last_ms + SILENT_MS)
    assert tick["brokers_answered"] == []


def test_agents_that_go_on_beside_a_dead_collector_are_heard(
    collected: tuple[ClockPublisher, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, last_ms = collected
    now = time.monotonic()
    for later in (0, PATIENCE_SECONDS + 1):
        monkeypatch.setattr("streaming.service.clock_publisher.time.monotonic", lambda later=later: now + later)
        keeper.listen(asking(newest_ms=last_ms))
    (tick,) = keeper.ticks(now + PATIENCE_SECONDS + 1, last_ms + SILENT_MS)
    assert tick["brokers_answered"] == tick["brokers_asked"] == ["broker-a"]


@pytest.mark.parametrize(
    ("events", "is_silent"),
    [
        pytest.param([(0, 0), (10, 10)], True, id="two rounds in step with the wall clock"),
        pytest.param([(0, 3), (10, 9)], True, id="a batch that came late once"),
        pytest.param([(-600, 0), (-300, 1), (0, 2)], False, id="a simulated past that ends now"),
        pytest.param([(0, 0), (10, 1), (20, 2)], False, id="time that runs ten times as fast as life"),
        pytest.param([(-7_200, 0), (-7_190, 10)], False, id="a replay in step, of two hours ago"),
        pytest.param([(0, 0)], False, id="a single event"),
        pytest.param([(0, 0), (0, 10)], False, id="one event twice"),
    ],
)
def test_only_a_clock_that_kept_pace_with_the_wall_clock_is_missed(
    events: list[tuple[int, int]], is_silent: bool
) -> None:
    """Events as (event time, arrived at), both in seconds."""
    times_ms = [(10_000_000 + event * 1000, 10_000_000 + at * 1000) for event, at in events]
    clock = CollectorClock(*times_ms[0])
    for event_time_ms, at_ms in times_ms:
        clock.note(event_time_ms, at_ms)
    assert clock.is_silent(10_000_000 + 3_600_000, SILENT_MS, 0) == is_silent


@pytest.mark.parametrize(
    ("promise", "started_s", "late_s", "rounds_s", "silent_s"),
    [
        ("silence counts from the last round", 0, 0, range(0, 100, 10), 90 + 60),
        ("a clock that lags and keeps pace is missed when it stops", 0, 3_600, range(0, 100, 10), 90 + 3_600 + 60),
        ("a slow clock is silent after three of its rounds", 0, 0, range(0, 400, 75), 375 + 225),
        ("a machine that comes up has its collector after `run`", 1_000, 0, range(10, 30, 10), 1_000 + 60),
    ],
)
def test_a_clock_is_silent_from_a_time_on(
    promise: str, started_s: int, late_s: int, rounds_s: range, silent_s: int
) -> None:
    """Each round arrives `late_s` after its time."""
    clock = CollectorClock(rounds_s[0] * 1000, (rounds_s[0] + late_s) * 1000)
    for second in rounds_s:
        clock.note(second * 1000, (second + late_s) * 1000)
    assert (clock.is_live, clock.lag_ms()) == (True, late_s * 1000)
    assert not clock.is_silent(silent_s * 1000 - 1, SILENT_MS, started_s * 1000), promise
    assert clock.is_silent(silent_s * 1000, SILENT_MS, started_s * 1000), promise


def test_a_clock_that_is_silent_for_a_day_is_no_longer_missed(collected: tuple[ClockPublisher, int]) -> None:
    keeper, last_ms = collected
    assert keeper.unheard(last_ms + FORGOTTEN_MS - 1) == [("c", ["broker-a"])]
    assert keeper.unheard(last_ms + FORGOTTEN_MS) == []


def test_an_error_that_nobody_thought_of_is_logged_and_the_next_tick_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = ClockPublisher(Settings.load(clock={"interval_seconds": 0.1}))
    monkeypatch.setattr(Tail, "read", lambda *_: [])
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


def test_a_collector_that_died_while_run_was_down_is_noticed(
    keeper: ClockPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's clock events are read ahead of the query. Bad messages and forgotten parts of the cluster are skipped."""
    now_ms = time.time_ns() // 1_000_000
    clock = {**clock_event("c", ["broker-a"], 0, answered=["broker-a"]), "source": "collector"}
    part = {"kind": "group", "name": "g", "owner": "ada", "reason": "gone"}
    values = [clock | {"event_time_ms": now_ms}, clock | {"event_time_ms": now_ms + ROUND_MS}, {"cluster": "c"}]
    values.append(clock | {"event_time_ms": now_ms + ROUND_MS, "source": "forget", "forgotten": [part]})
    records = [
        SimpleNamespace(value=msgspec.json.encode(value), timestamp=now_ms + ROUND_MS * (number > 0))
        for number, value in enumerate(values)
    ]
    monkeypatch.setattr(Tail, "read", lambda *_: records)
    keeper.read_ahead()
    assert keeper.unheard(now_ms + ROUND_MS + SILENT_MS) == [("c", ["broker-a"])]


@pytest.mark.real
def test_the_tail_of_a_topic_is_read_since_a_time_and_then_on(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """The last day of the clock topic: more than one fetch."""
    settings = settings_for(kafka, tmp_path)
    now_ms = time.time_ns() // 1_000_000
    tail, fresh, late = (Tail(settings.kafka, CLOCKS) for _ in range(3))
    before = len(tail.read(now_ms - DAY))
    assert late.read() == []
    with Publisher(settings.kafka) as publisher:
        for number in range(1_000):
            publisher.publish(CLOCKS, clock_event(f"tail-{number % 2}", ["broker-a"], now_ms + number))
        publisher.publish_raw(CLOCKS, b"tail-0", b"not a clock event")
    assert len(fresh.read(now_ms - DAY)) == before + 1_001
    assert fresh.read() == []
    read = [record.value for record in tail.read(now_ms - DAY)]
    assert len(read) == len(late.read()) == 1_001
    times = [msgspec.json.decode(value)["event_time_ms"] for value in read if value != b"not a clock event"]
    assert sorted(times) == [now_ms + number for number in range(1_000)]
    for each in (tail, fresh, late):
        each.close()
