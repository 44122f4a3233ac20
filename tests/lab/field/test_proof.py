"""The proof: a real RocketMQ, two consumers with one ClientId, and the page that RocketMQ's own check does not write.

NameServer, two brokers and three consumers run from RocketMQ's jars, each in a JVM of its own; `balancewatch collect`
and `balancewatch run` are started as an operator starts them. Every clock and rule is as in production; test_field.py
plays such twins four times as fast.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.store.alerts import read_current_alerts
from streaming.warehouse.warehouse_error import WarehouseError
from tests.conftest import settings_for
from tests.support.rocketmq import SCALED, RocketMQ
from tests.support.rocketmq_clocks import Clocks
from tests.support.rocketmq_server import wait_for
from tests.support.service_process import ServiceProcess

pytestmark = [pytest.mark.proof, pytest.mark.spark, pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

GROUP, TOPIC, QUEUES = "orders_group", "orders", 4
ALERT_SECONDS = 480.0


@contextlib.contextmanager
def balancewatch(settings: Settings, log: Path, *arguments: str) -> Iterator[ServiceProcess]:
    """A `balancewatch` command in the background; it must still run at the end of the block."""
    environment = {
        "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "BALANCEWATCH_PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "BALANCEWATCH_PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
    }
    process = ServiceProcess(log, environment, *arguments)
    process.start()
    try:
        yield process
        process.check()
    finally:
        process.stop()


@pytest.fixture
def cluster(rocketmq_cluster: RocketMQ) -> Iterator[RocketMQ]:
    """The cluster, by the clocks of production."""
    rocketmq_cluster.set_clocks(Clocks(1))
    yield rocketmq_cluster
    rocketmq_cluster.set_clocks(SCALED)


def test_twins_of_a_real_cluster_page_with_both_addresses_and_the_starved_queues(
    cluster: RocketMQ, empty_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    settings = settings_for(empty_kafka, tmp_path)
    cluster.create_topic(TOPIC, QUEUES)
    mq_all = [f"{broker_name}:{queue_id}" for broker_name in sorted(cluster.brokers) for queue_id in range(QUEUES)]
    shares = [mq_all[:3], mq_all[:3], mq_all[6:]]  # AVG: 3, 3 and 2, and both twins take the first three
    nobodys = mq_all[3:6]

    def newest(kind: str, state: str) -> dict[str, Any] | None:
        run.check()
        collector.check()
        try:
            rows = read_current_alerts(settings.paths.warehouse, state)
        except WarehouseError:
            return None
        return next((row for row in reversed(rows) if (row["kind"], row["consumer_group"]) == (kind, GROUP)), None)

    def wait_for_alert(kind: str, state: str) -> dict[str, Any]:
        return wait_for(f"{kind} is {state}", lambda: newest(kind, state), ALERT_SECONDS, every_seconds=0.5)

    collect = ["collect", "--name-server", cluster.name_server, "--interval", str(cluster.clocks.collect_seconds)]
    collect += ["--group", GROUP, "--topic", TOPIC]
    with (
        balancewatch(settings, tmp_path / "run.log", "run") as run,
        cluster.consumers(TOPIC, (GROUP, "same"), (GROUP, "same"), (GROUP, "solo")) as (*twins, solo),
    ):
        assert twins[0].client_id == twins[1].client_id
        wait_for("the consumers rebalance", lambda: [one.queues() for one in (*twins, solo)] == shares)
        assert "Rebalance OK" in cluster.operator.mqadmin("consumerStatus", "-g", GROUP)

        with balancewatch(settings, tmp_path / "collect.log", *collect) as collector:
            duplicate = wait_for_alert("duplicate_client_id", "FIRING")
            starved = wait_for_alert("starved_queue", "FIRING")
            assert [one.queues() for one in (*twins, solo)] == shares
            assert "Rebalance OK" in cluster.operator.mqadmin("consumerStatus", "-g", GROUP)

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
            assert starved["inhibited_by"] == duplicate["incident_id"]

            twins[1].stop()
            over = wait_for_alert("duplicate_client_id", "RESOLVED")
            fed = wait_for_alert("starved_queue", "RESOLVED")
            assert over["incident_id"] == duplicate["incident_id"]
            assert fed["incident_id"] == starved["incident_id"]
            assert {queue for consumer in (twins[0], solo) for queue in consumer.queues()} == set(mq_all)
