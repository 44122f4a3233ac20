"""Two collectors for one cluster, on a real Kafka and a real RocketMQ: one leads, the other waits and follows it."""

import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS
from streaming.collector.lease import CollectorName, LeaseLostError, Turn
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

LEASE_SECONDS = 6.0
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
            said += [f"{one.kind} at {event.event_time_ms}" for one in find(state, CLUSTER, event.event_time_ms)]
    return said


@pytest.fixture
def turns(settings: Settings) -> Iterator[Callable[..., Turn]]:
    """Collectors' turns, each made with settings of its collector."""
    with contextlib.ExitStack() as stack:

        def make(**collector: Any) -> Turn:
            given = settings.collector.model_copy(update=collector)
            name = stack.enter_context(contextlib.closing(CollectorName(given)))
            return stack.enter_context(contextlib.closing(Turn(settings.kafka, given, name)))

        yield make


def leads(turn: Turn) -> bool:
    turn.take()
    return turn.is_ours


class Collecting(threading.Thread):
    """A collector with rounds of no work. Kafka confirmed each round in `confirmed`, a list of many."""

    def __init__(self, turn: Turn, confirmed: list["Collecting"]) -> None:
        super().__init__(daemon=True)
        self._turn, self._confirmed = turn, confirmed
        self._stop_collecting = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stop_collecting.wait(0.1):
            if leads(self._turn):
                with contextlib.suppress(LeaseLostError):
                    self._turn.check()
                    self._confirmed.append(self)

    def stop(self) -> None:
        self._stop_collecting.set()
        self._turn.close()
        self.join(30)


def test_collectors_of_several_clusters_all_lead(turns: Callable[..., Turn]) -> None:
    east, west = turns(cluster="east"), turns(cluster="west")
    wait_for("both lead", lambda: leads(east) and leads(west))


def test_of_many_that_begin_at_once_one_leads_until_it_ends_and_then_another(turns: Callable[..., Turn]) -> None:
    confirmed: list[Collecting] = []
    crowd = [Collecting(turns(cluster="crowd"), confirmed) for _ in range(4)]
    leaders = []
    for _ in range(3):
        begun = len(confirmed)
        wait_for("one leads", lambda begun=begun: len(confirmed) >= begun + 3)
        leaders.append(confirmed[-1])
        leaders[-1].stop()
    for one in crowd:
        one.stop()
    assert [one for one, _ in itertools.groupby(confirmed)][:3] == leaders
    assert len(set(leaders)) == 3


def test_a_leader_that_cannot_do_a_round_lets_the_other_try(turns: Callable[..., Turn]) -> None:
    one, confirmed = turns(cluster="offered"), list[Collecting]()
    wait_for("one leads", lambda: leads(one))
    one.offer()
    assert one.is_ours, "no standby waits"
    other = Collecting(turns(cluster="offered"), confirmed)

    def has_standby() -> bool:
        with contextlib.closing(one._open_admin()) as admin:
            return len(one._find_members(admin)) == 2

    wait_for("the other waits", has_standby)
    one.check()
    assert confirmed == [], "the leader's round goes on"
    one.offer()
    wait_for("the other leads", lambda: confirmed)
    assert not leads(one)
    other.stop()


def test_a_successor_on_the_same_host_does_not_wait_for_its_predecessor(
    settings: Settings, turns: Callable[..., Turn]
) -> None:
    """Killed: its socket is gone with its process, and its member stays in the group."""
    dead = turns(cluster="restarted", id="restarted", lease_seconds=60.0)
    wait_for("it leads", lambda: leads(dead))
    dead._name.close()
    heir = turns(cluster="restarted", id="restarted", lease_seconds=60.0)
    wait_for("the heir leads", lambda: leads(heir))
    with pytest.raises(LeaseLostError):
        dead.check()
