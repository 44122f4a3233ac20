"""What a client writes of itself, held against what the cluster says of it."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import free_port
from tests.field.class_paths import ClassPaths
from tests.field.client import FieldClient, FieldClients
from tests.field.client_process import ClientError
from tests.field.client_spec import ClientSpec
from tests.field.cluster import start_proxy
from tests.oracle import EACH_RELEASE
from tests.rocketmq import RocketMQ
from tests.rocketmq_server import Server, wait_for

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

CONSUMERS = ("push", "push_orderly", "lite_pull", "pull_assign", "broadcasting")
ALL = {f"{broker}:{queue_id}" for broker in ("broker-a", "broker-b") for queue_id in range(4)}

HOUR_MS = 3_600_000

Line = dict[str, Any]


@pytest.fixture(scope="module")
def class_paths(tmp_path_factory: pytest.TempPathFactory) -> ClassPaths:
    return ClassPaths(Settings.load().paths.jars, tmp_path_factory.mktemp("classes"))


@pytest.fixture
def clients(rocketmq_cluster: RocketMQ, class_paths: ClassPaths, tmp_path: Path) -> Iterator[FieldClients]:
    made = FieldClients(tmp_path, class_paths, rocketmq_cluster.clocks)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def topic(rocketmq_cluster: RocketMQ) -> str:
    name = f"field-{uuid4().hex[:8]}"
    rocketmq_cluster.create_topic(name)
    return name


@pytest.fixture
def proxy(rocketmq_cluster: RocketMQ, tmp_path: Path) -> Iterator[Server]:
    """A 5.x proxy before the cluster, where gRPC clients connect."""
    started = start_proxy(
        rocketmq_cluster.jars, tmp_path / "proxy", free_port(), free_port(), rocketmq_cluster.name_server
    )
    try:
        started.wait()
        yield started
    finally:
        started.kill()


def last_line(client: FieldClient) -> Line:
    """The newest whole line of a client's log; before there is one, that of a client that holds nothing."""
    lines = client.truth_log.read_text().splitlines(keepends=True) if client.truth_log.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    return dict(json.loads(whole[-1])) if whole else {"t": 0, "queues": [], "subscriptions": {}, "is_paused": False}


def queues_of(client: FieldClient, topic: str) -> list[Line]:
    return [queue for queue in last_line(client)["queues"] if queue["topic"] == topic]


def held_by(client: FieldClient, topic: str) -> set[str]:
    return {f"{queue['broker_name']}:{queue['queue_id']}" for queue in queues_of(client, topic)}


def wait_until(what: str, client: FieldClient, is_so: Callable[[FieldClient], bool]) -> None:
    try:
        wait_for(what, lambda: is_so(client), 90, 0.3)
    except AssertionError as error:
        raise AssertionError(f"{error}; the last of {client.name}: {last_line(client)}") from None


def consumed(client: FieldClient, topic: str) -> int:
    return sum(queue["consumed"] for queue in queues_of(client, topic))


def start(clients: FieldClients, cluster: RocketMQ, **fields: Any) -> FieldClient:
    client = clients.add(ClientSpec(**fields), cluster.name_server)
    client.start()
    return client


@pytest.mark.parametrize("release", EACH_RELEASE)
def test_each_kind_writes_what_it_holds_pulls_consumes_and_commits(
    rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str, release: str
) -> None:
    shared = {"topics": (topic,), "release": release, "process": "all"}
    made = [
        start(clients, rocketmq_cluster, name=kind, kind=kind, group=f"{kind}-{topic}", **shared) for kind in CONSUMERS
    ]
    producer = start(
        clients, rocketmq_cluster, name="p", kind="producer", group="pg", rate_per_s=20, fault_avoidance=True, **shared
    )
    route = {"broker-a": 4, "broker-b": 4}
    for client in made:
        wait_until("every queue is held", client, lambda one: held_by(one, topic) == ALL)
        wait_until("and consumed", client, lambda one: all(queue["consumed"] for queue in queues_of(one, topic)))
        wait_until("and committed", client, lambda one: all(queue["committed"] > 0 for queue in queues_of(one, topic)))
        wait_until("the route is known", client, lambda one: last_line(one)["routes"].get(topic) == route)
        line = last_line(client)
        assert line["client_id"] == client.client_id
        written_ms = line["t"] + 1_000  # its time is taken first, the queues are read afterwards
        for queue in (one for one in line["queues"] if one["topic"] == topic):
            assert line["t"] - 90_000 < queue["last_pull"] <= written_ms
            assert line["t"] - 90_000 < queue["last_consume"] <= written_ms
            assert queue["pulled"] >= queue["consumed"]
            assert queue["locked"] == (client.name == "push_orderly")
            assert not queue["dropped"]
    line = last_line(producer)
    assert line["sent"] >= len(line["queues"]) == 8
    assert {fault["broker_name"] for fault in line["faults"]} == {"broker-a", "broker-b"}
    assert line["send_failed"] == 0


def test_a_pop_consumer_writes_what_it_pops(rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str) -> None:
    group = f"pop-{topic}"
    rocketmq_cluster.create_group(group)
    rocketmq_cluster.mqadmin("setConsumeMode", "-c", "DefaultCluster", "-t", topic, "-g", group, "-m", "POP")
    shared = {"topics": (topic,), "process": "one"}
    client = start(clients, rocketmq_cluster, name="c", kind="pop", group=group, **shared)
    start(clients, rocketmq_cluster, name="p", kind="producer", group="pg", rate_per_s=20, **shared)
    every = {"broker-a:-1", "broker-b:-1"}
    wait_until("every broker is popped", client, lambda one: held_by(one, topic) == every)
    wait_until("messages come", client, lambda one: all(queue["consumed"] for queue in queues_of(one, topic)))
    assert all(queue["popped"] and queue["last_pull"] for queue in queues_of(client, topic))


def test_twins_hold_the_same_queues_under_one_client_id(
    rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str
) -> None:
    twins = [
        start(
            clients,
            rocketmq_cluster,
            name=f"twin{number}",
            kind="push",
            group=f"g-{topic}",
            topics=(topic,),
            release=release,
            instance_name="same",
        )
        for number, release in enumerate(("4.9.8", "5.5.0"))
    ]
    assert twins[0].client_id == twins[1].client_id == "127.0.0.1@same"
    half = {f"broker-a:{queue_id}" for queue_id in range(4)}
    for twin in twins:
        wait_until("a twin holds the first half", twin, lambda one: held_by(one, topic) == half)


def test_a_mute_member_consumes_and_refuses_its_running_info(
    rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str
) -> None:
    group, shared = f"g-{topic}", {"topics": (topic,), "process": "both"}
    start(clients, rocketmq_cluster, name="p", kind="producer", group="pg", rate_per_s=20, **shared)
    for is_mute in (False, True):
        client = start(clients, rocketmq_cluster, name=str(is_mute), kind="push", group=group, mute=is_mute, **shared)
        wait_until("it consumes", client, lambda one: consumed(one, topic) > 0)
        printed = rocketmq_cluster.mqadmin("consumerStatus", "-g", group, "-i", client.client_id)
        assert ("#Consumer Properties#" in printed) == (not is_mute), printed


def test_a_hung_listener_holds_its_queues_and_consumes_nothing_until_it_goes_on(
    rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str
) -> None:
    shared = {"topics": (topic,), "process": "one"}
    consumer = start(clients, rocketmq_cluster, name="c", kind="push", group=f"g-{topic}", **shared)
    start(clients, rocketmq_cluster, name="p", kind="producer", group="pg", rate_per_s=50, **shared)
    wait_until("it consumes", consumer, lambda one: consumed(one, topic) > 0)
    consumer.command("hang")
    wait_until("messages wait", consumer, lambda one: sum(queue["cached"] for queue in queues_of(one, topic)) > 20)
    before, t = consumed(consumer, topic), last_line(consumer)["t"]
    wait_until("a line later", consumer, lambda one: last_line(one)["t"] > t + 1_500)
    assert consumed(consumer, topic) == before
    consumer.command("unhang")
    wait_until("it consumes again", consumer, lambda one: consumed(one, topic) > before + 20)
    consumer.command("suspend")
    wait_until("it says so", consumer, lambda one: last_line(one)["is_paused"])
    other = f"other-{topic}"
    consumer.command(f"subscribe {other} A")
    wait_until("it subscribes", consumer, lambda one: last_line(one)["subscriptions"].get(other) == "A")
    with pytest.raises(ClientError, match="no verb of a push consumer: dance"):
        consumer.command("dance")


def test_a_frozen_client_is_silent_a_killed_one_is_gone_and_both_come_back(
    rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str
) -> None:
    client = start(clients, rocketmq_cluster, name="c", kind="lite_pull", group=f"g-{topic}", topics=(topic,))
    wait_until("it holds every queue", client, lambda one: held_by(one, topic) == ALL)
    client.freeze()
    size = client.truth_log.stat().st_size
    with pytest.raises(ClientError, match="no answer to 'suspend' within 2 s"):
        client.process.ask("c", "suspend", 2)
    assert client.truth_log.stat().st_size == size
    client.thaw()
    wait_until("it writes again", client, lambda one: one.truth_log.stat().st_size > size)
    pid = client.pid
    client.kill()
    assert not client.is_alive()
    with pytest.raises(ClientError, match="its JVM does not run"):
        client.command("suspend")
    size = client.truth_log.stat().st_size
    client.start()
    assert client.pid != pid
    wait_until("it writes again", client, lambda one: one.truth_log.stat().st_size > size)
    client.stop()
    assert not client.is_alive()


@pytest.mark.parametrize("release", EACH_RELEASE)
def test_a_client_whose_clock_is_off_writes_by_the_machines_clock(
    rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str, release: str
) -> None:
    shared = {"topics": (topic,), "release": release, "clock_skew_s": -7_200.0, "process": "one"}
    consumer = start(clients, rocketmq_cluster, name="c", kind="push_orderly", group=f"g-{topic}", **shared)
    start(clients, rocketmq_cluster, name="p", kind="producer", group="pg", rate_per_s=20, **shared)
    wait_until("every queue is held", consumer, lambda one: held_by(one, topic) == ALL)
    wait_until("and consumed", consumer, lambda one: all(queue["consumed"] for queue in queues_of(one, topic)))
    now_ms = time.time() * 1_000
    for queue in queues_of(consumer, topic):
        assert all(abs(queue[name] - now_ms) < HOUR_MS for name in ("last_pull", "last_consume", "last_lock"))
    asked = rocketmq_cluster.mqadmin("consumerStatus", "-g", f"g-{topic}", "-i", consumer.client_id)
    started = re.search(r"PROP_CONSUMER_START_TIMESTAMP\s*[=:]\s*(\d+)", asked)
    assert started, asked
    assert int(started[1]) < now_ms - HOUR_MS


@pytest.mark.proof
def test_grpc_clients_write_what_they_send_and_consume_through_the_proxy(
    rocketmq_cluster: RocketMQ, clients: FieldClients, topic: str, proxy: Server
) -> None:
    shared: dict[str, Any] = {"topics": (topic,), "process": "one"}
    rocketmq_cluster.create_group(f"g-{topic}")
    consumer = clients.add(ClientSpec("c", "grpc_push", f"g-{topic}", **shared), proxy.address)
    producer = clients.add(ClientSpec("p", "grpc_producer", "pg", rate_per_s=20, **shared), proxy.address)
    consumer.start()
    producer.start()
    every = {"broker-a:-1", "broker-b:-1"}
    wait_until("every broker is asked", consumer, lambda one: held_by(one, topic) == every)
    wait_until("messages come", consumer, lambda one: consumed(one, topic) > 100)
    wait_until("every queue is sent to", producer, lambda one: held_by(one, topic) == ALL)
    assert last_line(producer)["send_failed"] == 0
    consumer.command("hang")
    hung_ms, sent = last_line(consumer)["t"], last_line(producer)["sent"]
    wait_until("it has written since", consumer, lambda one: last_line(one)["t"] > hung_ms + 2_000)
    before = consumed(consumer, topic)
    wait_until("sending goes on", producer, lambda one: last_line(one)["sent"] > sent + 60)
    assert consumed(consumer, topic) == before
    consumer.command("unhang")
    wait_until("it consumes again", consumer, lambda one: consumed(one, topic) > before + 40)
    consumer.stop()
    producer.stop()
    assert not consumer.is_alive()
