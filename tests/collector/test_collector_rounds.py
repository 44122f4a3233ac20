"""A collector's rounds without RocketMQ and Kafka: its own clock, its name, and what a person decided."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from kafka.errors import KafkaConnectionError
from structlog.testing import capture_logs

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.collector import collector as collector_module
from streaming.collector import lease
from streaming.collector.collector import _Collector
from streaming.collector.known_brokers import Forgotten, find_brokers
from streaming.collector.lease import CollectorName
from streaming.collector.round_reader import RoundReader
from streaming.kafka_io import tail
from streaming.kafka_io.publisher import EventTooLargeError, PublishError
from tests.collector.rounds import GROUP, NOW, FakeAdmin, timed_out

HOUR_S, STEP_S = 3_600, 10


class Wall:
    """The machine's clock, set by the test."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.seconds = NOW / 1000

    def time(self) -> float:
        return self.seconds


class LivingAdmin(FakeAdmin):
    """A RocketMQAdmin whose JVM lives."""

    def is_alive(self) -> bool:
        return True

    def close(self) -> None:
        pass


class Published:
    """A Kafka that keeps what it is given, or takes nothing."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.is_down = False
        self.too_large: set[str] = set()

    def publish(self, topic: str, event: dict[str, Any]) -> None:
        if topic in self.too_large:
            raise EventTooLargeError(f"{topic}: too large")
        assert decode(topic, msgspec.json.encode(event), event["event_time_ms"])[1] == []
        self.events.append((topic, event))

    def flush(self) -> None:
        if self.is_down:
            raise PublishError("Kafka did not take an event")

    def close(self) -> None:
        pass

    def take(self, topic: str) -> list[dict[str, Any]]:
        """The events of a topic so far; all are forgotten."""
        found = [event for name, event in self.events if name == topic]
        self.events.clear()
        return found


class Rounds:
    """A collector over a FakeAdmin, one round at a time, 10 s apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.admin, self.published, self.wall = LivingAdmin(), Published(), Wall()
        self.forgotten: list[str] = []
        monkeypatch.setattr(collector_module, "time", self.wall)
        monkeypatch.setattr(Forgotten, "read_brokers", lambda *_: self.forgotten)
        self.collector = _Collector(Settings.load(collector={"name_server": "ns:9876", **settings}))
        reader = RoundReader(self.collector._settings.collector, self.admin, self.collector._brokers)
        self.collector._admin, self.collector._reader = self.admin, reader
        self.collector._publisher = self.published  # type: ignore[assignment]

    def run(self, step_s: float = STEP_S) -> dict[str, Any]:
        """The clock event of the next round, so many seconds later."""
        self.wall.seconds += step_s
        self.collector.run_round()
        return next(event for topic, event in reversed(self.published.events) if topic == CLOCKS)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rounds]:
    rounds = Rounds(monkeypatch, groups=[GROUP], interval_seconds=2.5)
    yield rounds
    rounds.collector.close()


def seconds(clock: dict[str, Any]) -> int:
    return int((clock["event_time_ms"] - NOW) // 1000)


def test_a_clock_that_was_ahead_for_a_round_does_not_stay_ahead(rounds: Rounds) -> None:
    assert [seconds(rounds.run(step)) for step in (STEP_S, HOUR_S, STEP_S - HOUR_S, STEP_S)] == [10, 3_610, 20, 30]


def test_an_event_that_is_too_large_is_named_and_does_not_stop_the_round(rounds: Rounds) -> None:
    rounds.published.too_large = {HEARTBEATS}
    with capture_logs() as logged:
        assert seconds(rounds.run()) == 10
    assert {row["reason"] for row in logged if row["event"] == "event not published"} == {f"{HEARTBEATS}: too large"}


def test_a_small_step_back_is_waited_out(rounds: Rounds) -> None:
    assert [seconds(rounds.run(step)) for step in (STEP_S, -2, 1, 5)] == [10, 10, 10, 14]


def test_after_the_clock_was_set_back_nothing_is_stuck(rounds: Rounds) -> None:
    rounds.run()
    rounds.run(HOUR_S)
    rounds.run(-HOUR_S)
    assert len(rounds.published.take(ROUTES)) >= 1  # not an hour later
    for _ in range(3):
        rounds.run()
    assert len(rounds.published.take(ROUTES)) == 1  # every half minute


def test_a_round_that_kafka_did_not_take_is_derived_anew(rounds: Rounds) -> None:
    rounds.published.is_down = True
    with pytest.raises(PublishError):
        rounds.run()
    rounds.published.events.clear()
    rounds.published.is_down = False
    rounds.run()
    assert {topic for topic, _ in rounds.published.events} == {HEARTBEATS, PULLS, ROUTES, CLOCKS}


def test_a_round_reports_its_interval_its_groups_and_what_it_did_not_hear(rounds: Rounds) -> None:
    clock = rounds.run()
    assert (clock["interval_ms"], clock["groups"], "unheard" in clock) == (2_500, [GROUP], False)
    rounds.admin.fail(timed_out(), "read_running_info", "broker-a", GROUP)
    clock = rounds.run()
    (entry,) = clock["unheard"]
    assert (entry["consumer_group"], entry["reason"], entry["since_ms"]) == (GROUP, "timed_out", clock["event_time_ms"])


def test_a_broker_that_died_and_is_forgotten_is_asked_no_more(rounds: Rounds) -> None:
    rounds.run()
    rounds.admin.dead = {"broker-b"}
    for _ in range(5):
        assert rounds.run(HOUR_S)["brokers_asked"] == ["broker-a", "broker-b"]
    rounds.forgotten = ["broker-a", "broker-b"]
    assert rounds.run()["brokers_asked"] == ["broker-a"]  # a live broker is not forgotten
    rounds.forgotten = []
    rounds.admin.dead = set()
    assert rounds.run()["brokers_answered"] == ["broker-a", "broker-b"]


def test_a_new_jvm_asks_for_the_brokers_that_were_known(rounds: Rounds) -> None:
    rounds.run()
    rounds.admin.dead = {"broker-b"}
    old = rounds.collector._reader
    assert old is not None
    rounds.collector._reader = RoundReader(old._settings, rounds.admin, rounds.collector._brokers)
    assert rounds.run()["brokers_asked"] == ["broker-a", "broker-b"]
    old.close()


# Its name


def names(*collectors: dict[str, str]) -> list[str]:
    held = [CollectorName(Settings.load(collector=each).collector) for each in collectors]
    texts = [name.text for name in held]
    for name in held:
        name.close()
    return texts


def test_a_collector_is_named_by_its_host_and_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    host = uuid.uuid4().hex  # names are the machine's, on which other tests run
    monkeypatch.setattr(lease.socket, "gethostname", lambda: host)
    assert names({"name_server": "ns:9876"}, {"name_server": "ns-2:9876"}) == [f"{host}/ns:9876", f"{host}/ns-2:9876"]
    assert names({"name_server": "ns:9876"}) == [f"{host}/ns:9876"]  # and so again after a restart
    assert names({"name_server": "ns:9876", "id": "east"}) == ["east"]


def test_two_collectors_on_one_host_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    host = uuid.uuid4().hex
    monkeypatch.setattr(lease.socket, "gethostname", lambda: host)
    one = {"name_server": "ns:9876"}
    assert names(one, one, one) == [f"{host}/ns:9876", f"{host}/ns:9876#2", f"{host}/ns:9876#3"]


def test_a_long_name_is_cut_and_still_its_own() -> None:
    first, second = names({"name_server": "n" * 5_000 + "1"}, {"name_server": "n" * 5_000 + "2"})
    assert (len(first) <= 200, len(second) <= 200, first != second) == (True, True, True)


# What a person decided


KNOWN = ("broker-a", "broker-b")


def decided(*entries: Any, **fields: Any) -> bytes:
    clock = {"cluster": "c", "source": "forget", "brokers_asked": [], "brokers_answered": [], "event_time_ms": NOW}
    return msgspec.json.encode({**clock, "forgotten": entries, **fields})


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (decided({"kind": "broker", "name": "broker-b", "owner": "me"}), ["broker-b"]),
        (decided({"kind": "cluster", "name": "c", "owner": "me"}), ["broker-a", "broker-b"]),
        (decided({"kind": "group", "name": "broker-b", "owner": "me"}), []),
        (decided({"kind": "broker", "name": "broker-b", "owner": "me"}, cluster="d"), []),
        (decided({"kind": "broker", "name": "broker-b", "owner": "me"}, source="collector"), []),
        (decided({"kind": "broker", "name": ["x"]}, "rubbish", None), []),
        (decided({"kind": "broker", "name": "broker-b"}), []),
        (b"[1]", []),
        (b"{", []),
        (b"[" * 100_000, []),
        (None, []),
    ],
)
def test_a_decision_names_brokers_of_its_cluster(value: bytes | None, found: list[str]) -> None:
    assert find_brokers(value, "c", KNOWN) == found


def test_a_kafka_that_does_not_answer_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def open_consumer(kafka: object) -> Any:
        opened.append(kafka)
        raise KafkaConnectionError

    monkeypatch.setattr(tail, "open_consumer", open_consumer)
    reader = Forgotten(Settings.load().kafka)
    for _ in range(3):
        assert reader.read_brokers("c", KNOWN) == []
    assert len(opened) == 1  # it is tried again a minute later
    reader.close()
