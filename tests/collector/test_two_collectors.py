"""Two collectors for one cluster, on a real Kafka and a real RocketMQ: one leads, the other waits and follows it."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS
from streaming.collector import lease as lease_module
from streaming.collector.known_brokers import CollectorError
from streaming.collector.lease import CollectorName, KafkaLease, Turn
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.topics import create_topics
from tests.collector.test_collector_real import consumer_at_the_end
from tests.support.freezing import freeze
from tests.support.offenders import assert_none
from tests.support.rocketmq import RocketMQ
from tests.support.rocketmq_server import CLUSTER, wait_for
from tests.support.rules import default_rules
from tests.support.service_process import ServiceProcess
from udfs.brokers.cluster_findings import find_slow_collector, find_stopped_collectors
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.rounds import Rounds, Tick

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

LEASE_SECONDS = 5.0
INTERVAL_SECONDS = 0.5


def collect(settings: Settings, name: str, log: Path) -> ServiceProcess:
    """`balancewatch collect` in a process of its own."""
    given = {
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "COLLECTOR__NAME_SERVER": settings.collector.name_server,
        "COLLECTOR__ID": name,
        "COLLECTOR__INTERVAL_SECONDS": str(INTERVAL_SECONDS),
        "COLLECTOR__LEASE_SECONDS": str(LEASE_SECONDS),
        "COLLECTOR__GROUPS": '["no_such_group"]',
    }
    process = ServiceProcess(log, {f"BALANCEWATCH_{key}": value for key, value in given.items()}, "collect")
    process.start()
    return process


class Ticks:
    """Clock events of collectors as they come: (collector, event)."""

    def __init__(self, settings: Settings) -> None:
        self._kafka = consumer_at_the_end(settings)
        self.events: list[Any] = []

    def read(self) -> list[str]:
        """Who has spoken so far, round by round."""
        for records in self._kafka.poll(timeout_ms=200).values():
            for record in records:
                if record.topic == CLOCKS:
                    event, reasons = decode(CLOCKS, record.value, record.timestamp)
                    assert not reasons
                    self.events.append(event)
        return [event.collector for event in self.events]

    def wait_for_rounds_of(self, name: str, rounds: int = 3) -> None:
        """Return when the newest so many are of this collector."""
        wait_for(f"{name} leads", lambda: self.read()[-rounds:] == [name] * rounds)

    def close(self) -> None:
        self._kafka.close()


@pytest.fixture
def settings(kafka: EmbeddedKafka, rocketmq_cluster: RocketMQ) -> Settings:
    found = Settings.load(
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        collector={"name_server": rocketmq_cluster.name_server, "lease_seconds": LEASE_SECONDS},
    )
    create_topics(found.kafka)
    return found


@pytest.fixture
def ticks(settings: Settings) -> Iterator[Ticks]:
    with contextlib.closing(Ticks(settings)) as ticks:
        yield ticks


@pytest.mark.proof
def test_one_leads_the_other_waits_and_follows_a_kill_a_stop_and_a_freeze(
    settings: Settings, ticks: Ticks, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:

        def start(name: str) -> ServiceProcess:
            one = collect(settings, name, tmp_path / f"{name}.log")
            stack.callback(one.kill)
            return one

        first = start("first")
        ticks.wait_for_rounds_of("first")
        second = start("second")
        wait_for("the second waits", lambda: "standby entered" in (tmp_path / "second.log").read_text())
        ticks.wait_for_rounds_of("first")
        assert set(ticks.read()) == {"first"}

        first.kill()
        ticks.wait_for_rounds_of("second")

        third = start("third")
        wait_for("the third waits", lambda: "standby entered" in (tmp_path / "third.log").read_text())
        freeze(second.pid)
        ticks.wait_for_rounds_of("third")
        os.kill(second.pid, signal.SIGCONT)
        before = len(ticks.events)
        wait_for("the thawed one knows", lambda: "third" in (tmp_path / "second.log").read_text())
        ticks.wait_for_rounds_of("third")
        assert set(ticks.read()[before:]) == {"third"}  # what it had read when it froze was not published

        assert third.stop() == 0
        ticks.wait_for_rounds_of("second")
    assert_none(findings(ticks.events))


def findings(events: list[Any]) -> list[str]:
    """What the rules say of these rounds, at each of them and long after a change."""
    said: list[str] = []
    rounds, rules = Rounds(), default_rules()
    for event in events:
        rounds.note(
            Tick(
                event.event_time_ms,
                frozenset(event.brokers_asked),
                frozenset(event.brokers_answered),
                is_own=False,
                source=event.collector,
                groups=frozenset(event.groups or ()) or None,
                interval_ms=event.interval_ms,
            )
        )
        state = ClusterState(rounds=rounds)
        for find in (find_slow_collector, lambda *each: find_stopped_collectors(*each, rules)):
            said += [
                f"{finding.kind} at {event.event_time_ms}" for _, finding in find(state, CLUSTER, event.event_time_ms)
            ]
    return said


def test_of_many_that_begin_at_once_never_two_lead(settings: Settings) -> None:
    leases = [KafkaLease(settings.kafka, "crowd", f"holder-{number}", "c", LEASE_SECONDS) for number in range(4)]
    other = KafkaLease(settings.kafka, "another cluster", "holder-0", "c", LEASE_SECONDS)
    seen: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            leading = [lease for lease in leases if lease.read_term() is not None]
            if len(leading) > 1 and leading[0].read_term() is not None:  # it led before and after the other did
                seen.append("two lead")
            time.sleep(0.01)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(3):
            leader = wait_for("one leads", lambda: next((one for one in leases if one.read_term() is not None), None))
            leader.close()
            leases.remove(leader)
        wait_for("the collector of another cluster leads too", lambda: other.read_term() is not None)
    finally:
        done.set()
        watcher.join()
        for lease in (*leases, other):
            lease.close()
    assert_none(seen)


def test_a_leader_that_cannot_do_a_round_lets_the_other_try(settings: Settings) -> None:
    one, other = (KafkaLease(settings.kafka, "offered", name, name, LEASE_SECONDS) for name in ("one", "other"))
    try:
        wait_for("one leads", lambda: one.read_term() is not None or other.read_term() is not None)
        leader, waiter = (one, other) if one.read_term() is not None else (other, one)
        wait_for("the other waits", leader.offer)
        wait_for("the other leads", lambda: waiter.read_term() is not None)
        assert leader.read_term() is None
    finally:
        one.close()
        other.close()


def test_a_topic_whose_times_are_the_senders_is_refused_in_a_sentence(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "claims.of.create.time"
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers)
    admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"message.timestamp.type": "CreateTime"})])
    admin.close()
    monkeypatch.setattr(lease_module, "LEASES", topic)
    monkeypatch.setattr(lease_module, "_PLACE", TopicPartition(topic, 0))
    with contextlib.closing(CollectorName(settings.collector)) as name:
        turn = Turn(settings.kafka, settings.collector, name)
        try:
            with pytest.raises(CollectorError, match=f"{topic} needs message.timestamp.type=LogAppendTime"):
                wait_for("it is refused", turn.take)
        finally:
            turn.close()
