"""What a client writes of itself, held against what the cluster says of it. The judge of test_field.py reads it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.lab.field.class_paths import ClassPaths
from tests.lab.field.client import ClientError, FieldClient, FieldClients
from tests.lab.field.client_spec import ClientSpec
from tests.lab.oracle import RELEASES
from tests.support.rocketmq import RocketMQ
from tests.support.rocketmq_server import wait_for

pytestmark = [pytest.mark.proof, pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

CONSUMERS = ("push", "push_orderly", "lite_pull", "pull_assign", "broadcasting")
ALL = {f"{broker}:{queue_id}" for broker in ("broker-a", "broker-b") for queue_id in range(4)}

Line = dict[str, Any]


def last_line(client: FieldClient) -> Line:
    """The newest complete line of a client's log; before there is one, that of a client that holds nothing."""
    lines = client.truth_log.read_text().splitlines(keepends=True) if client.truth_log.exists() else []
    complete = [line for line in lines if line.endswith("\n")]
    return dict(json.loads(complete[-1])) if complete else {"t": 0, "queues": []}


def wait_until(what: str, client: FieldClient, topic: str, ask: Callable[[Line, list[Line]], bool]) -> None:
    """`ask` takes the client's newest line, and its queues of the topic."""

    def is_true() -> bool:
        line = last_line(client)
        return ask(line, [queue for queue in line["queues"] if queue["topic"] == topic])

    try:
        wait_for(what, is_true, 90, 0.3)
    except AssertionError as error:
        raise AssertionError(f"{error}; the last of {client.name}: {last_line(client)}") from None


@pytest.mark.parametrize("release", RELEASES)
def test_each_kind_writes_what_it_holds_pulls_consumes_and_commits(
    rocketmq_cluster: RocketMQ, tmp_path: Path, release: str
) -> None:
    """Then a frozen client is silent, and one that was killed starts again."""
    topic = f"field-{uuid4().hex[:8]}"
    rocketmq_cluster.create_topic(topic)
    class_paths = ClassPaths(rocketmq_cluster.jars, tmp_path / "classes")
    clients = FieldClients(tmp_path, class_paths, rocketmq_cluster.clocks)
    shared: dict[str, Any] = {"topics": (topic,), "release": release, "process": "all"}

    def start(name: str, kind: str, group: str, **fields: Any) -> FieldClient:
        client = clients.add(ClientSpec(name, kind, group, **shared, **fields), rocketmq_cluster.name_server)  # type: ignore[arg-type]
        client.start()
        return client

    try:
        made = [start(kind, kind, f"{kind}-{topic}") for kind in CONSUMERS]
        producer = start("p", "producer", "pg", rate_per_s=20, fault_avoidance=True)
        route = {"broker-a": 4, "broker-b": 4}
        for client in made:
            wait_until(
                "every queue is held",
                client,
                topic,
                lambda _, queues: {f"{one['broker_name']}:{one['queue_id']}" for one in queues} == ALL,
            )
            wait_until("and consumed", client, topic, lambda _, queues: all(one["consumed"] for one in queues))
            wait_until("and committed", client, topic, lambda _, queues: all(one["committed"] > 0 for one in queues))
            if (client.name, release) != ("pull_assign", "4.9.8"):  # which asks for no route of what it is assigned
                wait_until("the route is known", client, topic, lambda line, _: line["routes"].get(topic) == route)
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
        producer.process.freeze()
        size, pid = producer.truth_log.stat().st_size, producer.process.pid
        with pytest.raises(ClientError, match="no answer to 'hang' within 2 s"):
            producer.process.ask("p", "hang", 2)
        assert producer.truth_log.stat().st_size == size
        producer.process.kill()
        producer.start()
        assert producer.process.pid != pid
        wait_until("it writes again", producer, topic, lambda _, __: producer.truth_log.stat().st_size > size)
    finally:
        clients.close()
