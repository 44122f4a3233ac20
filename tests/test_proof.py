"""The proof: a real RocketMQ, two consumers with one ClientId, and the page that RocketMQ's own check does not write.

NameServer, two brokers and three consumers run from RocketMQ's jars, each in a JVM of its own; `balancewatch collect`
and `balancewatch run` are started as an operator starts them.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from streaming.history.alerts import Filter, WarehouseError, read_alerts
from streaming.ingest.embedded_kafka import EmbeddedKafka
from tests.conftest import settings_for
from tests.rocketmq import rocketmq, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.real]

GROUP, TOPIC, QUEUES = "orders_group", "orders", 4
ALERT_SECONDS = 480.0
STOP_SECONDS = 60.0


@contextlib.contextmanager
def balancewatch(settings: Settings, log: Path, *arguments: str) -> Iterator[None]:
    """A `balancewatch` command in the background; it must still run when it is told to end, and end cleanly."""
    environment = os.environ | {
        "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "BALANCEWATCH_PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "BALANCEWATCH_PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming.cli", *arguments], env=environment, stdout=output, stderr=output
        )
    try:
        yield
        assert process.poll() is None, log.read_text()[-2000:]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    assert code == 0, log.read_text()[-2000:]


def test_twins_of_a_real_cluster_page_with_both_addresses_and_the_starved_queues(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    settings = settings_for(kafka, tmp_path, queries={"starting_offsets": "latest"})

    def newest(kind: str, state: str) -> dict[str, Any] | None:
        try:
            rows = read_alerts(settings.paths.warehouse, Filter(kind, state, consumer_group=GROUP), current=True)
        except WarehouseError:
            return None
        return rows[-1] if rows else None

    collect = ("collect", "--interval", "2", "--group", GROUP, "--topic", TOPIC)
    with rocketmq(settings.paths.jars) as cluster:
        cluster.create_topic(TOPIC, QUEUES)
        twins = [cluster.start_consumer(GROUP, TOPIC, "same") for _ in range(2)]
        solo = cluster.start_consumer(GROUP, TOPIC, "solo")
        every_queue = {f"{broker_name}:{queue_id}" for broker_name in cluster.brokers for queue_id in range(QUEUES)}
        assert twins[0].client_id == twins[1].client_id
        wait_for("the consumers rebalance", lambda: twins[0].queues() == twins[1].queues() != [] and solo.queues())

        with (
            balancewatch(settings, tmp_path / "run.log", "run"),
            balancewatch(settings, tmp_path / "collect.log", *collect, "--name-server", cluster.name_server),
        ):
            duplicate = wait_for(
                "the duplicate ClientId pages", lambda: newest("duplicate_client_id", "FIRING"), ALERT_SECONDS
            )
            starved = wait_for("the starved queues page", lambda: newest("starved_queue", "FIRING"), ALERT_SECONDS)
            consumed = {queue for consumer in (*twins, solo) for queue in consumer.queues()}
            nobodys = sorted(every_queue - consumed)
            assert nobodys

            assert duplicate["client_id"] == twins[0].client_id
            views = duplicate["evidence"]["views"]  # a broker that was asked a moment later may not be in it yet
            assert views
            assert views.keys() <= set(cluster.brokers)
            assert [len(addrs) for addrs in views.values()] == [2] * len(views)
            for addr in views[min(views)]:
                assert addr in duplicate["summary"]
            assert duplicate["queues"] == nobodys
            assert starved["queues"] == nobodys
            assert starved["cause"] == "duplicate_client_id"
            assert starved["suppressed_by"] == duplicate["incident_id"]

            status = cluster.consumer_status(GROUP)
            assert "Rebalance OK" in status

            twins[1].stop()
            over = wait_for("the page resolves", lambda: newest("duplicate_client_id", "RESOLVED"), ALERT_SECONDS)
            fed = wait_for("the queues are fed again", lambda: newest("starved_queue", "RESOLVED"), ALERT_SECONDS)
            assert over["incident_id"] == duplicate["incident_id"]
            assert fed["incident_id"] == starved["incident_id"]
            assert {queue for consumer in (twins[0], solo) for queue in consumer.queues()} == every_queue
