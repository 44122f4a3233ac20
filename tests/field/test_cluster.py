"""The field's cluster, its links and troubles, held against real clients of three releases and the proxy's."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conf.settings import Settings
from tests.field.class_paths import ClassPaths
from tests.field.client import FieldClient, FieldClients
from tests.field.client_spec import RELEASES, ClientSpec, Kind
from tests.field.cluster import FieldCluster
from tests.field.links import Links
from tests.field.queue_locks import take_locks
from tests.field.test_client import last_line
from tests.remoting import GET_CONSUMER_LIST_BY_GROUP, Channel
from tests.rocketmq_clocks import Clocks
from tests.rocketmq_server import wait_for

pytestmark = [pytest.mark.real, pytest.mark.proof, pytest.mark.xdist_group("field")]

LONGER_THAN_A_LOCK_ROUND = 45.0
"""RebalanceService's lockInterval is 20 s, by no setting of a test."""


class Field:
    """A topic of its own on the shared cluster, and clients that go by links."""

    def __init__(self, cluster: FieldCluster, links: Links, clients: FieldClients) -> None:
        self.cluster, self.links, self._clients = cluster, links, clients
        self.topic = f"orders-{uuid4().hex[:8]}"
        self.group = f"g-{self.topic}"
        cluster.create_topic(self.topic)

    def start(self, name: str, kind: Kind, **fields: Any) -> FieldClient:
        spec = ClientSpec(name=name, kind=kind, topics=(self.topic,), **{"group": self.group, **fields})
        link = self.link(name)
        client = self._clients.add(spec, self.links.proxy_of(link) if spec.is_grpc else self.links.name_server_of(link))
        client.start()
        return client

    def link(self, name: str) -> str:
        return f"{self.topic}.{name}"

    def listed(self, broker: str) -> list[str]:
        """The group's ClientIds, as one broker lists them: a channel each."""
        with Channel(self.cluster.brokers[broker].address) as channel:
            body = channel.request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self.group}).body
        return sorted(body["consumerIdList"]) if body else []

    def queues(self, client: FieldClient, broker_name: str = "") -> list[dict[str, Any]]:
        return [
            queue
            for queue in last_line(client)["queues"]
            if queue["topic"] == self.topic and broker_name in ("", queue["broker_name"])
        ]

    def consumed(self, client: FieldClient, broker_name: str = "") -> int:
        return sum(int(queue["consumed"]) for queue in self.queues(client, broker_name))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FieldCluster]:
    made = FieldCluster(Settings.load().paths.jars, tmp_path_factory.mktemp("field"), Clocks(4), proxy=True)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def links(cluster: FieldCluster) -> Iterator[Links]:
    with Links(cluster.servers) as made:
        yield made


@pytest.fixture(scope="module")
def class_paths(tmp_path_factory: pytest.TempPathFactory) -> ClassPaths:
    return ClassPaths(Settings.load().paths.jars, tmp_path_factory.mktemp("classes"))


@pytest.fixture
def field(cluster: FieldCluster, links: Links, class_paths: ClassPaths, tmp_path: Path) -> Iterator[Field]:
    with ExitStack() as stack:
        clients = FieldClients(tmp_path, class_paths, cluster.clocks)
        stack.callback(clients.close)
        yield Field(cluster, links, clients)


def wait_until(what: str, is_so: Callable[[], object]) -> None:
    wait_for(what, lambda: bool(is_so()), 150, 0.3)


def test_clients_of_each_release_go_by_links_of_their_own(field: Field) -> None:
    consumers = [field.start(f"c-{release}", "push", release=release) for release in RELEASES]
    vip = {"vipChannelEnabled": True}
    producer = field.start("p", "producer", group="pg", rate_per_s=20, release="4.7.1", options=vip)
    wait_until("each consumes", lambda: all(field.consumed(consumer) for consumer in consumers))
    held = [(queue["broker_name"], queue["queue_id"]) for consumer in consumers for queue in field.queues(consumer)]
    assert len(held) == len(set(held)) == 8
    ids = sorted(consumer.client_id for consumer in consumers)
    assert field.listed("broker-a") == field.listed("broker-b") == ids
    assert last_line(producer)["sent"]
    assert not {f"127.0.0.1:{port}" for port in field.cluster.servers.values()} & {
        sent["address"] for client in (*consumers, producer) for sent in last_line(client).get("heartbeats", ())
    }


def test_a_client_cut_from_one_broker_keeps_the_other(field: Field) -> None:
    client = field.start("c", "push", release="4.9.8")
    other = field.start("d", "push", release="5.5.0")
    both = sorted([client.client_id, other.client_id])
    wait_until("both are listed", lambda: field.listed("broker-a") == field.listed("broker-b") == both)
    field.links.cut(field.link("c"), "broker-b")
    wait_until("broker-b has lost it", lambda: field.listed("broker-b") == [other.client_id])
    assert field.listed("broker-a") == both
    field.links.heal(field.link("c"), "broker-b")
    wait_until("broker-b has it again", lambda: field.listed("broker-b") == both)


@pytest.mark.parametrize("release", RELEASES)
def test_a_black_hole_leaves_the_client_listed_and_its_end_leaves_one_channel(field: Field, release: str) -> None:
    client = field.start("c", "push", release=release)
    field.start("p", "producer", group="pg", rate_per_s=20)
    wait_until("it consumes of both", lambda: all(field.consumed(client, name) for name in ("broker-a", "broker-b")))
    field.links.blackhole(field.link("c"), "broker-b")
    of_a = field.consumed(client, "broker-a")
    wait_until("it goes on with broker-a", lambda: field.consumed(client, "broker-a") > of_a + 200)
    of_b = field.consumed(client, "broker-b")
    of_a = field.consumed(client, "broker-a")
    wait_until("and still", lambda: field.consumed(client, "broker-a") > of_a + 50)
    assert field.consumed(client, "broker-b") == of_b
    assert field.listed("broker-b") == [client.client_id]
    field.links.heal(field.link("c"), "broker-b")
    wait_until("it consumes of both again", lambda: field.consumed(client, "broker-b") > of_b + 50)
    wait_until("by one channel", lambda: field.listed("broker-b") == [client.client_id])


def test_a_slave_serves_what_its_master_had(field: Field) -> None:
    consumer = field.start("c", "push")
    producer = field.start("p", "producer", group="pg", rate_per_s=50)
    wait_until("it consumes", lambda: field.consumed(consumer, "broker-a"))
    consumer.command("suspend")
    sent = last_line(producer)["sent"]
    wait_until("more is sent", lambda: last_line(producer)["sent"] > sent + 500)
    producer.stop()
    wait_until("the slave has it all", field.cluster.is_replicated)
    field.cluster.brokers["broker-a"].server.kill()
    try:
        before = field.consumed(consumer, "broker-a")
        consumer.command("resume")
        wait_until("it reads from the slave", lambda: field.consumed(consumer, "broker-a") > before + 100)
    finally:
        field.cluster.start_broker("broker-a")
    wait_until("the slave follows again", field.cluster.is_replicated)


def test_one_name_server_is_enough_and_the_other_comes_back_whole(field: Field) -> None:
    for number in (0, 1):
        field.cluster.name_servers[number].stop()
        try:
            field.cluster.create_topic(f"{field.topic}-{number}")
            field.start(f"p-{number}", "producer", group="pg")
        finally:
            field.cluster.start_name_server(number)


def test_a_frozen_broker_stays_in_the_route(field: Field) -> None:
    field.cluster.brokers["broker-b"].server.freeze()
    try:
        assert field.cluster.operator.brokers_of(field.topic) == {"broker-a", "broker-b"}
        with pytest.raises(TimeoutError):
            field.listed("broker-b")
    finally:
        field.cluster.brokers["broker-b"].server.thaw()
    wait_until("it answers again", lambda: field.listed("broker-b") == [])


def test_an_altered_topic_keeps_what_was_not_named(field: Field) -> None:
    field.cluster.alter_topic(field.topic, "broker-b", perm=4)
    field.cluster.alter_topic(field.topic, read_queue_nums=6)

    def configs() -> list[tuple[int, int, int]]:
        made = [
            field.cluster.operator.topic_config(field.cluster.brokers[name].address, field.topic)
            for name in ("broker-a", "broker-b")
        ]
        return [(one.getReadQueueNums(), one.getWriteQueueNums(), one.getPerm()) for one in made]

    assert configs() == [(6, 4, 6), (6, 4, 4)]


def test_locks_that_a_stranger_takes_are_lost_and_had_again(field: Field) -> None:
    consumer = field.start("c", "push_orderly")

    def unlocked() -> set[tuple[str, int]]:
        return {(one["broker_name"], one["queue_id"]) for one in field.queues(consumer) if not one["locked"]}

    wait_until("it holds every queue", lambda: len(field.queues(consumer)) == 8 and not unlocked())
    broker = field.cluster.brokers["broker-b"]
    take_locks(broker.address, broker.broker_name, field.group, field.topic, [1, 2], LONGER_THAN_A_LOCK_ROUND)
    seen = {
        (queue["broker_name"], queue["queue_id"])
        for line in consumer.truth_log.read_text().splitlines()
        for queue in json.loads(line)["queues"]
        if queue["topic"] == field.topic and not queue["locked"] and queue["last_lock"]
    }
    assert seen == {("broker-b", 1), ("broker-b", 2)}
    wait_until("it has them again", lambda: not unlocked())


def test_grpc_clients_go_by_a_link_to_the_proxy(field: Field) -> None:
    field.cluster.create_group(field.group)
    consumer = field.start("c", "grpc_push")
    producer = field.start("p", "grpc_producer", group="pg", rate_per_s=20)
    wait_until("messages come", lambda: field.consumed(consumer) > 50)
    field.links.cut(field.link("p"), "proxy")
    failed = last_line(producer)["send_failed"]
    wait_until("sends fail", lambda: last_line(producer)["send_failed"] > failed)
    field.links.heal(field.link("p"), "proxy")
    before = field.consumed(consumer)
    wait_until("messages come again", lambda: field.consumed(consumer) > before + 50)
