"""The collector against a real NameServer, two brokers, twins, clients with missing data, and a real Kafka."""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import CLOCKS, EVENTS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from streaming.collector.collector import run_collector
from streaming.collector.rocketmq_jvm import RocketMQJvm
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics
from tests.lab.field.class_paths import build_agent, skew_options
from tests.lab.field.links import BLACK_HOLE, EVERY, HEALTHY, Links
from tests.support.offenders import assert_none
from tests.support.rocketmq import RocketMQ
from tests.support.rocketmq_clocks import Clocks
from tests.support.rocketmq_consumer import Consumer
from tests.support.rocketmq_server import CLUSTER, wait_for

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

LIVELY = Clocks(15)
"""Heartbeats come every 2 s: a few rounds distinguish a frozen client from a live one."""

MEMBERS = (("shipping_group", "same"), ("shipping_group", "same"), ("billing_group", "solo"))
LINKED_GROUP, SKEWED_GROUP = "linked_group", "skewed_group"
AHEAD_SECONDS = 120


@dataclass(frozen=True)
class ClocksAhead(Clocks):
    """Of a client whose RocketMQ has a wall clock AHEAD_SECONDS ahead."""

    agent: Path

    def client_options(self) -> list[str]:
        return [*super().client_options(), *skew_options(self.agent, AHEAD_SECONDS)]


class Collected:
    """A running collector, the cluster it reads, and every event it has published."""

    def __init__(self, settings: Settings, cluster: RocketMQ, links: Links, consumers: list[Consumer]) -> None:
        self.cluster = cluster
        self.links = links
        *self.twins, self.solo, self.linked, self.skewed = consumers
        self.events: dict[str, list[Any]] = defaultdict(list)
        self._settings = settings
        self.reasons: list[list[str]] = []
        self._kafka = consumer_at_the_end(settings)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(settings,))
        self._thread.start()

    def find(self, kafka_topic: str, **fields: Any) -> list[Any]:
        """The events of a topic so far whose fields have these values."""
        self._read()
        wanted = fields.items()
        return [e for e in self.events[kafka_topic] if all(getattr(e, name) == value for name, value in wanted)]

    def wait_for(self, kafka_topic: str, **fields: Any) -> list[Any]:
        """As `find`, when there is at least one."""
        return wait_for(f"{kafka_topic} {fields}", lambda: self.find(kafka_topic, **fields))

    def wait_rounds(self, rounds: int) -> None:
        """Return when so many more rounds have ended."""
        target = len(self.find(CLOCKS)) + rounds
        wait_for("more rounds end", lambda: len(self.find(CLOCKS)) >= target)

    def forget_broker(self, name: str) -> None:
        """What `balancewatch forget --broker` publishes."""
        decision = {"kind": "broker", "name": name, "owner": "test"}
        event = {"cluster": CLUSTER, "source": "forget", "brokers_asked": [], "brokers_answered": []}
        with Publisher(self._settings.kafka) as publisher:
            publisher.publish(CLOCKS, event | {"forgotten": [decision], "event_time_ms": _last_clock_ms(self)})
            publisher.flush()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._kafka.close()
        assert not self._thread.is_alive()

    def _run(self, settings: Settings) -> None:
        try:
            run_collector(settings, self._stop)
        except BaseException as error:
            self._error = error

    def _read(self) -> None:
        assert self._error is None, repr(self._error)
        for records in self._kafka.poll(timeout_ms=200).values():
            for record in records:
                event, reasons = decode(record.topic, record.value, record.timestamp)
                self.reasons += [reasons] if reasons else []
                self.events[record.topic].append(event)


def consumer_at_the_end(settings: Settings) -> KafkaConsumer:
    """A reader of all that is published from now on, and of nothing before."""
    consumer = KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap_servers)
    partitions = [
        TopicPartition(topic, partition)
        for topic in EVENTS
        for partition in wait_for(f"partitions of {topic}", lambda name=topic: consumer.partitions_for_topic(name))
    ]
    consumer.assign(partitions)
    consumer.seek_to_end()
    for partition in partitions:
        consumer.position(partition)  # where that end is, is asked now
    return consumer


@pytest.fixture(scope="module")
def collected(
    kafka: EmbeddedKafka, rocketmq_cluster: RocketMQ, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Collected]:
    cluster = rocketmq_cluster
    cluster.create_topic("shipments")
    cluster.create_topic("short_lived", queues=1)
    settings = Settings.load(
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        collector={
            "name_server": cluster.name_server,
            "interval_seconds": 0.5,
            "probe": True,
            "timeout_ms": 2000,
        },
    )
    create_topics(settings.kafka)
    with contextlib.ExitStack() as stack:
        links = stack.enter_context(contextlib.closing(Links(cluster.servers)))
        consumers = list(stack.enter_context(cluster.consumers("shipments", *MEMBERS, clocks=LIVELY)))
        ahead = ClocksAhead(LIVELY.factor, build_agent(tmp_path_factory.mktemp("clock")))
        for name, group, name_server, clocks in (
            ("linked", LINKED_GROUP, links.name_server_of("linked"), LIVELY),
            ("skewed", SKEWED_GROUP, cluster.name_server, ahead),
        ):
            one = Consumer(cluster.jars, name_server, clocks, group=group, topic="shipments", instance_name=name)
            stack.callback(one.close)
            consumers.append(one)
        yield stack.enter_context(contextlib.closing(Collected(settings, cluster, links, consumers)))


def test_each_broker_reports_both_twins_under_one_client_id(collected: Collected) -> None:
    client_id = collected.twins[0].client_id
    for broker_name in ("broker-a", "broker-b"):
        heartbeats = wait_for(
            f"twins at {broker_name}",
            lambda name=broker_name: _twins(collected.find(HEARTBEATS, broker_name=name, client_id=client_id)),
        )
        (consumer,) = heartbeats[-1].consumers
        assert consumer.consumer_group == "shipping_group"
        assert [s.topic for s in consumer.subscriptions] == ["shipments"]
        assert (heartbeats[-1].cluster, heartbeats[-1].language) == (CLUSTER, "JAVA")
        assert heartbeats[-1].client_version == "5.5.0"
    ports = {h.client_addr for h in collected.find(HEARTBEATS, client_id=client_id)}
    assert len(ports) == 4  # two twins, two brokers, four channels


def test_pulls_name_the_channel_unless_there_are_twins(collected: Collected) -> None:
    twin = collected.wait_for(PULLS, client_id=collected.twins[0].client_id)[-1]
    assert twin.client_addr is None
    solo = collected.wait_for(PULLS, client_id=collected.solo.client_id, broker_name="broker-b")[-1]
    heartbeats = collected.find(HEARTBEATS, client_id=collected.solo.client_id, broker_name="broker-b")
    assert solo.client_addr in {heartbeat.client_addr for heartbeat in heartbeats}
    assert (solo.topic, solo.consumer_group) == ("shipments", "billing_group")


def test_a_push_consumer_reports_whether_it_consumes_in_order(collected: Collected) -> None:
    jvm = collected.cluster.operator._jvm  # it runs already
    with contextlib.ExitStack() as stack:
        for listener in ("Orderly", "Concurrently"):
            consumer = start_push_consumer(jvm, collected.cluster.name_server, f"{listener}_group", listener)
            stack.callback(jvm.call, consumer.shutdown)
        for group, consume_orderly in (("Orderly_group", True), ("Concurrently_group", False), ("billing_group", None)):
            reported = wait_for(f"{group} in order: {consume_orderly}", lambda g=group: _reported(collected, g))
            assert (reported[-1].consume_orderly, reported[-1].strategy) == (consume_orderly, "AVG")
            assert collected.wait_for(PULLS, consumer_group=group)[-1].pull_status is None


def test_a_group_that_may_not_consume_is_refused_where_it_may_not(collected: Collected) -> None:
    group, at_a = "billing_group", {"consumer_group": "billing_group", "broker_name": "broker-a"}
    assert collected.find(PULLS, pull_status="NO_PERMISSION") == []
    collected.cluster.set_consume_enable(group, "broker-a", enabled=False)
    refused = collected.wait_for(PULLS, **at_a, pull_status="NO_PERMISSION")[0]
    assert (refused.client_id, refused.topic) == (collected.solo.client_id, "shipments")
    collected.cluster.set_consume_enable(group, "broker-a", enabled=True)

    def is_served_again() -> bool:
        return bool(collected.find(PULLS, **at_a)) and collected.find(PULLS, **at_a)[-1].pull_status is None

    wait_for("pulls are served again", is_served_again)
    assert {pull.broker_name for pull in collected.find(PULLS, pull_status="NO_PERMISSION")} == {"broker-a"}
    assert {pull.consumer_group for pull in collected.find(PULLS, pull_status="NO_PERMISSION")} == {group}


def test_a_frozen_client_gets_no_fresh_heartbeat(collected: Collected) -> None:
    collected.wait_for(HEARTBEATS, client_id=collected.solo.client_id)
    collected.solo.freeze()
    frozen_at_ms = int(time.time() * 1000)
    try:
        sent_before_ms = frozen_at_ms + 3 * LIVELY.heartbeat_ms
        wait_for("rounds after the last heartbeat", lambda: _last_clock_ms(collected) > sent_before_ms + 1_000)
        heartbeats = collected.find(HEARTBEATS, client_id=collected.solo.client_id)
        assert max(h.event_time_ms for h in heartbeats) <= sent_before_ms
        assert not any(h.leaving for h in heartbeats)
        (unheard,) = wait_for("the client gives no data", lambda: _unheard(collected, "billing_group"))
        assert unheard.client_id == collected.solo.client_id
        assert unheard.reason in ("timed_out", "left_in_peace", "no_time")
    finally:
        collected.solo.thaw()
    wait_for("the client answers again", lambda: not _unheard(collected, "billing_group"))


def test_routes_come_at_once_and_a_deleted_topic_comes_empty(collected: Collected) -> None:
    route = collected.wait_for(ROUTES, topic="shipments")[-1]
    assert [(q.broker_name, q.read_queue_nums) for q in route.queues] == [("broker-a", 4), ("broker-b", 4)]
    assert [b.broker_ids for b in route.brokers] == [[0], [0]]
    collected.wait_for(ROUTES, topic="short_lived")
    collected.cluster.delete_topic("short_lived")
    collected.wait_for(ROUTES, topic="short_lived", queues=[])
    topics = {route.topic for route in collected.find(ROUTES)}
    assert topics == collected.cluster.topics | {"short_lived"}  # nothing of RocketMQ's own, nor the probe


def test_a_group_that_is_deleted_is_reported_with_the_rounds_clock(collected: Collected) -> None:
    collected.cluster.create_group("short_lived_group")
    collected.wait_rounds(2)
    collected.cluster.delete_group("short_lived_group")
    collected.wait_for(CLOCKS, deleted_groups=["short_lived_group"])
    collected.wait_rounds(2)
    assert len([clock for clock in collected.find(CLOCKS) if clock.deleted_groups]) == 1


def test_the_probe_reports_real_latencies(collected: Collected) -> None:
    for broker_name in ("broker-a", "broker-b"):
        latency = collected.wait_for(SEND_LATENCIES, broker_name=broker_name, send_status="SEND_OK")[-1]
        assert 0 <= latency.latency_ms < 2_000
        assert not latency.isolation


def test_a_half_open_client_is_listed_as_missing_and_has_neither_left_nor_stopped(collected: Collected) -> None:
    client_id = collected.linked.client_id

    def reasons() -> set[str]:
        """Return why the newest round has no data of the client; empty when it has."""
        return {each.reason for each in collected.find(CLOCKS)[-1].unheard or () if each.client_id == client_id}

    collected.wait_for(PULLS, client_id=client_id)
    wait_for("the client answers", lambda: not reasons())
    collected.links.set_condition("linked", EVERY, BLACK_HOLE)
    try:
        wait_for("the client gives no data", lambda: reasons() & {"timed_out", "left_in_peace"})
        collected.wait_rounds(4)
        (unheard,) = _unheard(collected, LINKED_GROUP)
        assert unheard.client_id == client_id
        assert unheard.since_ms <= _last_clock_ms(collected)
        assert_none(collected.find(HEARTBEATS, client_id=client_id, leaving=True))
    finally:
        collected.links.set_condition("linked", EVERY, HEALTHY)  # asked again when its backoff of a minute is over


def test_a_client_whose_clock_is_ahead_is_dated_by_ours_and_its_skew_is_reported(collected: Collected) -> None:
    client_id = collected.skewed.client_id
    (skew,) = wait_for("the skew is reported", lambda: collected.find(CLOCKS)[-1].skews)
    assert (skew.machine, skew.role) == (client_id, "client")
    assert abs(skew.ahead_ms - AHEAD_SECONDS * 1000) < 15_000
    seen = len(collected.find(PULLS, client_id=client_id))
    wait_for("the client pulls again", lambda: len(collected.find(PULLS, client_id=client_id)) > seen)
    newest = collected.find(PULLS, client_id=client_id)[-1].event_time_ms
    heartbeats = collected.find(HEARTBEATS, client_id=client_id)
    now_ms = time.time() * 1000  # after the last that is found
    assert now_ms - 60_000 < newest <= now_ms
    assert_none(each.event_time_ms for each in heartbeats if each.event_time_ms > now_ms)


def test_a_consumer_that_stops_leaves_at_each_broker(collected: Collected) -> None:
    collected.twins[1].stop()
    client_id = collected.twins[1].client_id
    for broker_name in ("broker-a", "broker-b"):
        leaving = collected.wait_for(HEARTBEATS, broker_name=broker_name, client_id=client_id, leaving=True)[-1]
        assert [consumer.consumer_group for consumer in leaving.consumers] == ["shipping_group"]


def test_a_killed_broker_is_missing_rounds_continue_and_it_answers_when_it_is_back(collected: Collected) -> None:
    before = len(collected.find(HEARTBEATS, broker_name="broker-b", leaving=True))
    collected.cluster.brokers["broker-b"].kill()
    try:
        clock = collected.wait_for(CLOCKS, brokers_answered=["broker-a"])[-1]
        assert clock.brokers_asked == ["broker-a", "broker-b"]
        failed = collected.wait_for(SEND_LATENCIES, broker_name="broker-b", isolation=True)[0]
        assert failed.send_status is None
        collected.wait_rounds(2)
        assert len(collected.find(HEARTBEATS, broker_name="broker-b", leaving=True)) == before  # nothing is concluded
        collected.forget_broker("broker-b")
        wait_for("the broker is polled no more", lambda: collected.find(CLOCKS)[-1].brokers_asked == ["broker-a"])
    finally:
        collected.cluster.start_broker("broker-b")
    wait_for("both brokers answer", lambda: collected.find(CLOCKS)[-1].brokers_answered == ["broker-a", "broker-b"])


def test_every_event_is_good_and_no_clock_is_overtaken(collected: Collected) -> None:
    collected.wait_rounds(1)
    assert collected.reasons == []
    so_far = [event for topic in EVENTS for event in collected.events[topic]]
    collected.wait_rounds(2)  # the first to end may be the one whose events were just read
    clocks = collected.find(CLOCKS, source="collector")
    assert {(clock.interval_ms, bool(clock.collector)) for clock in clocks} == {(500, True)}
    skewed = {skew.machine for clock in clocks for skew in clock.skews or ()}
    assert skewed <= {collected.skewed.client_id}
    times = [clock.event_time_ms for clock in clocks]
    assert times == sorted(times)
    assert_none(event for event in so_far if event.event_time_ms > times[-1])


def start_push_consumer(jvm: RocketMQJvm, name_server: str, group: str, listener: str) -> Any:
    """A DefaultMQPushConsumer of `shipments` whose listener ("Orderly" or "Concurrently") finds every message good."""
    client = jvm.java.org.apache.rocketmq.client.consumer
    status = jvm.java.java.lang.Class.forName(f"org.apache.rocketmq.client.consumer.listener.Consume{listener}Status")
    interface = jvm.java.java.lang.Class.forName(
        f"org.apache.rocketmq.client.consumer.listener.MessageListener{listener}"
    )
    good = jvm.java.java.util.Optional.of(status.getEnumConstants()[0])
    consumer = client.DefaultMQPushConsumer(group)
    consumer.setNamesrvAddr(name_server)
    consumer.setInstanceName(group)
    consumer.setClientIP("127.0.0.1")
    consumer.setHeartbeatBrokerInterval(LIVELY.heartbeat_ms)
    consumer.setMessageListener(jvm.java.java.beans.EventHandler.create(interface, good, "get"))
    jvm.call(consumer.subscribe, "shipments", "*")
    jvm.call(consumer.start)
    return consumer


def _reported(collected: Collected, group: str) -> list[Any]:
    """ConsumerData of the group in heartbeats that came after its member described itself."""
    consumers = [consumer for heartbeat in collected.find(HEARTBEATS) for consumer in heartbeat.consumers]
    return [one for one in consumers if one.consumer_group == group and one.strategy is not None]


def _last_clock_ms(collected: Collected) -> int:
    return int(collected.wait_for(CLOCKS)[-1].event_time_ms)


def _unheard(collected: Collected, group: str) -> list[Any]:
    """Members of a group without data in the newest round; other tests' clients may still be listed for a while."""
    return [each for each in collected.find(CLOCKS)[-1].unheard or () if each.consumer_group == group]


def _twins(heartbeats: list[Any]) -> list[Any]:
    return heartbeats if len({heartbeat.client_addr for heartbeat in heartbeats}) > 1 else []
