"""A service with the hook, before a real broker and a real Kafka: its rows are good and true, and it is not held up."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conf.settings import Settings
from schemas.events import PULLS, SEND_LATENCIES
from streaming.kafka_io.embedded_kafka import EmbeddedKafka, free_port
from tests.agent.hooked import Ask, events_of, hooked_judge, hooked_service
from tests.conftest import settings_for
from tests.lab.oracle.judge import Judge
from tests.support.freezing import freeze
from tests.support.rocketmq import RocketMQ
from tests.support.rocketmq_server import wait_for
from tests.support.tiers import in_proof
from udfs.rocketmq.fault import FaultItem, update_fault_item
from udfs.rocketmq.version import release_of

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

NEARLY_MS = 3_500
"""An attempt's end as the hook sees it and the clock of updateFaultItem have hardly more than this JVM between them;
the nearest other durations of a fault item are 4 s away."""


@pytest.fixture
def topic(rocketmq_cluster: RocketMQ) -> str:
    name = f"hooked-{uuid4().hex[:8]}"
    rocketmq_cluster.create_topic(name)
    return name


@pytest.fixture
def settings(kafka: EmbeddedKafka, tmp_path: Path) -> Settings:
    return settings_for(kafka, tmp_path)


@pytest.fixture(scope="module", params=["5.5.0", *in_proof(["4.7.1", "4.9.8"])])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def judge(release: str) -> Iterator[Judge]:
    judge = hooked_judge(release)
    yield judge
    judge.stop()


@pytest.fixture
def ask(judge: Judge, rocketmq_cluster: RocketMQ, kafka: EmbeddedKafka, topic: str) -> Iterator[Ask]:
    with hooked_service(judge, rocketmq_cluster.name_server, kafka.bootstrap_servers, topic) as ask:
        yield ask


@pytest.fixture
def frozen_broker(rocketmq_cluster: RocketMQ) -> Iterator[str]:
    """broker-b takes connections and answers nobody."""
    pid = rocketmq_cluster.brokers["broker-b"].pid
    freeze(pid)
    yield "broker-b"
    os.kill(pid, signal.SIGCONT)


def send_without_failure(ask: Ask) -> int:
    """Return when the sends began that all arrived: brokers that have just started on a busy machine refuse some."""
    for _ in range(5):
        began_ms = time.time_ns() // 1_000_000
        if ask("send", count=20) == ask("async", count=20) == "20":
            return began_ms
    raise AssertionError("five times in a row some of 40 sends failed")


def test_sends_are_told_of_each_broker_and_pulls_of_each_queue(
    ask: Ask, settings: Settings, topic: str, release: str
) -> None:
    began_ms = send_without_failure(ask)
    producer_id, consumer_id = ask("producer_id"), ask("consumer_id")

    def sends() -> list[Any]:
        return [row for row in events_of(settings.kafka, SEND_LATENCIES, topic) if row.event_time_ms >= began_ms]

    wait_for("both brokers' rows", lambda: len({row.broker_name for row in sends()}) == 2)
    for row in sends():
        assert (row.cluster, row.client_id, row.topic) == ("DefaultCluster", producer_id, topic)
        assert release_of(row.client_version) == release_of(release)
        assert row.send_status == "SEND_OK"
        assert not row.isolation
        assert row.reachable in (None, True)

    def next_offsets() -> dict[tuple[str, int], int]:
        return {(row.broker_name, row.queue_id): row.pull_offset for row in events_of(settings.kafka, PULLS, topic)}

    wait_for("every queue's pulls", lambda: sum(next_offsets().values()) >= 40 and len(next_offsets()) == 8)
    assert int(ask("consumed")) >= 40
    for row in events_of(settings.kafka, PULLS, topic):
        assert (row.consumer_group, row.client_id, row.broker_id) == (f"g-{topic}", consumer_id, 0)
        assert row.client_addr is row.commit_offset is row.offsets_only is None


@pytest.mark.parametrize("how", ["send", "async"])
def test_our_fault_item_of_its_rows_is_the_one_that_the_producer_keeps(
    ask: Ask, settings: Settings, topic: str, frozen_broker: str, how: str
) -> None:
    ask(how, count=6)
    wait_for("the failure", lambda: any(row.isolation for row in events_of(settings.kafka, SEND_LATENCIES, topic)))
    kept = json.loads(ask("faults"))
    items: dict[str, FaultItem] = {}
    for row in sorted(events_of(settings.kafka, SEND_LATENCIES, topic), key=lambda row: row.event_time_ms):
        items[row.broker_name] = update_fault_item(
            items.get(row.broker_name),
            row.broker_name,
            row.latency_ms,
            row.isolation,
            row.reachable is not False,
            row.event_time_ms,
            row.client_version,
        )
    isolated = [row for row in events_of(settings.kafka, SEND_LATENCIES, topic) if row.isolation]
    assert {row.broker_name for row in isolated} == {frozen_broker}
    assert all(row.send_status is None for row in isolated)
    assert abs(items[frozen_broker].start_timestamp_ms - kept[frozen_broker]) < NEARLY_MS


def test_a_service_whose_kafka_is_away_sends_all_the_same_and_counts_what_it_drops(
    judge: Judge, rocketmq_cluster: RocketMQ, topic: str
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with hooked_service(judge, rocketmq_cluster.name_server, nowhere, topic) as ask:
        assert ask("send", count=60) == "60"
        wait_for("drops are counted", lambda: int(ask("dropped")) > 0)
        assert ask("close") == "closed"
        assert ask("send", count=10) == "10"
