"""Real clients that are hard to hear: a half-open connection, and a clock two minutes ahead."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conf.settings import Settings
from schemas.events import CLOCKS, HEARTBEATS, PULLS
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.topics import create_topics
from tests.collector.test_collector_real import LIVELY, Collected
from tests.lab.field.class_paths import build_agent, skew_options
from tests.lab.field.links import EVERY, Links
from tests.support.offenders import assert_none
from tests.support.rocketmq import RocketMQ
from tests.support.rocketmq_clocks import Clocks
from tests.support.rocketmq_consumer import Consumer
from tests.support.rocketmq_server import wait_for

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("rocketmq")]

TOPIC, GROUP, SKEWED_GROUP = "hardships", "hardship_group", "hardship_skewed_group"
AHEAD_SECONDS = 120


@dataclass(frozen=True)
class ClocksAhead(Clocks):
    """Of a client whose RocketMQ has a wall clock AHEAD_SECONDS ahead."""

    agent: Path

    def client_options(self) -> list[str]:
        return [*super().client_options(), *skew_options(self.agent, AHEAD_SECONDS)]


class HardToHear:
    """One client behind links, one with a clock that is ahead, and what a collector publishes of both."""

    def __init__(self, collected: Collected, links: Links, linked: Consumer, skewed: Consumer) -> None:
        self.collected, self.links, self.linked, self.skewed = collected, links, linked, skewed

    def reasons(self, client_id: str) -> set[str]:
        """Why the newest round did not hear the client; empty when it did."""
        unheard = self.collected.find(CLOCKS, source="collector")[-1].unheard or ()
        return {each.reason for each in unheard if each.client_id == client_id}


@pytest.fixture(scope="module")
def heard(
    kafka: EmbeddedKafka, rocketmq_cluster: RocketMQ, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HardToHear]:
    cluster = rocketmq_cluster
    cluster.create_topic(TOPIC)
    settings = Settings.load(
        kafka={"bootstrap_servers": kafka.bootstrap_servers},
        collector={
            "name_server": cluster.name_server,
            "interval_seconds": 0.5,
            "timeout_ms": 2000,
            "groups": [GROUP, SKEWED_GROUP],
        },
    )
    create_topics(settings.kafka)
    with contextlib.ExitStack() as stack:
        links = stack.enter_context(contextlib.closing(Links(cluster.servers)))

        def start(name: str, group: str, name_server: str, clocks: Clocks = LIVELY) -> Consumer:
            one = Consumer(cluster.jars, name_server, clocks, group=group, topic=TOPIC, instance_name=name)
            stack.callback(one.close)
            return one

        linked = start("linked", GROUP, links.name_server_of("linked"))
        ahead = ClocksAhead(LIVELY.factor, build_agent(tmp_path_factory.mktemp("clock")))
        skewed = start("skewed", SKEWED_GROUP, cluster.name_server, ahead)
        collected = stack.enter_context(contextlib.closing(Collected(settings, cluster, [linked, skewed])))
        yield HardToHear(collected, links, linked, skewed)


def test_a_half_open_client_is_named_unheard_and_has_neither_left_nor_stopped(heard: HardToHear) -> None:
    client_id = heard.linked.client_id
    heard.collected.wait_for(PULLS, client_id=client_id)
    wait_for("it is heard", lambda: not heard.reasons(client_id))
    heard.links.blackhole("linked", EVERY)
    try:
        wait_for("it is not heard", lambda: heard.reasons(client_id) & {"timed_out", "left_in_peace"})
        heard.collected.wait_rounds(4)
        unheard = [
            each
            for each in heard.collected.find(CLOCKS)[-1].unheard
            if each.client_id == client_id and each.consumer_group == GROUP
        ]
        assert len(unheard) == 1
        assert unheard[0].since_ms <= heard.collected.find(CLOCKS)[-1].event_time_ms
        assert_none(heard.collected.find(HEARTBEATS, client_id=client_id, leaving=True))
    finally:
        heard.links.heal("linked", EVERY)  # it is asked again when its peace of a minute is over


def test_a_client_whose_clock_is_ahead_is_dated_by_ours_and_its_clock_is_told(heard: HardToHear) -> None:
    client_id = heard.skewed.client_id
    (skew,) = wait_for("its clock is told", lambda: heard.collected.find(CLOCKS)[-1].skews)
    assert (skew.machine, skew.role) == (client_id, "client")
    assert abs(skew.ahead_ms - AHEAD_SECONDS * 1000) < 15_000
    seen = len(heard.collected.find(PULLS, client_id=client_id))
    wait_for("it pulls on", lambda: len(heard.collected.find(PULLS, client_id=client_id)) > seen)
    newest = heard.collected.find(PULLS, client_id=client_id)[-1].event_time_ms
    heartbeats = heard.collected.find(HEARTBEATS, client_id=client_id)
    now_ms = time.time() * 1000  # after the last that is found
    assert now_ms - 60_000 < newest <= now_ms
    assert_none(each.event_time_ms for each in heartbeats if each.event_time_ms > now_ms)
