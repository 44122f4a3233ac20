"""HookedService.java in a JVM, and the rows that its hook wrote to Kafka."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kafka import TopicPartition

from conf.settings import Kafka, Settings
from schemas.decode import decode
from schemas.events import PULLS, SEND_LATENCIES, key_of
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.spark.jars import class_path, resolve_jars
from tests.lab.oracle import RELEASES, SOURCES
from tests.lab.oracle.judge import Judge

HOOK = Path(__file__).parents[2] / "streaming" / "agent" / "BalancewatchHook.java"
SERVICE = Path(__file__).with_name("HookedService.java")

Ask = Callable[..., str]
"""Of a question and its fields; returns the answer."""


class Row(NamedTuple):
    """An event as our decoder reads it, and why it could not."""

    event: Any
    reasons: list[str]
    key: bytes


def hook_class_path(release_jars: str, jars: Path) -> str:
    """A release's class path, and the two of Kafka's jars that the hook needs beside it."""
    of_kafka = [next(resolve_jars("kafka", jars).glob(name)) for name in ("kafka-clients-*.jar", "slf4j-api-*.jar")]
    return os.pathsep.join([release_jars, *map(str, of_kafka)])


def hooked_judge(release: str) -> Judge:
    """A JVM of the release that answers for HookedService.java."""
    jars = Settings.load().paths.jars
    return Judge(hook_class_path(class_path(RELEASES[release], jars), jars), [SOURCES / "Oracle.java", SERVICE, HOOK])


@contextmanager
def hooked_service(judge: Judge, name_server: str, bootstrap_servers: str, topic: str) -> Iterator[Ask]:
    """Yield what asks the service in this JVM, of which there is one at a time."""

    def ask(question: str, **fields: Any) -> str:
        (answer,) = judge.ask("HookedService", [json.dumps({"ask": question, **fields})])
        return answer

    ask("start", name_server=name_server, kafka=bootstrap_servers, topic=topic)
    yield ask
    ask("stop")


def read_rows(kafka: Kafka, event_topic: str, topic: str) -> list[Row]:
    """What Kafka holds of an event's topic about a topic of RocketMQ, oldest first."""
    consumer = open_consumer(kafka)
    try:
        return list(_rows(consumer, event_topic, topic.encode()))
    finally:
        consumer.close()


def _rows(consumer: Any, event_topic: str, topic: bytes) -> Iterator[Row]:
    for (name, partition), span in read_spans(consumer, [event_topic]).items():
        place = TopicPartition(name, partition)
        consumer.assign([place])
        consumer.seek(place, span.beginning)
        while consumer.position(place) < span.end:
            for record in consumer.poll(1_000).get(place, []):
                if topic in record.value:
                    event, reasons = decode(event_topic, record.value, record.timestamp)
                    yield Row(event, reasons, record.key)


def sends_of(kafka: Kafka, topic: str) -> list[Any]:
    """Every row of send_latencies about the topic, each of them good, and under its key."""
    return _good(read_rows(kafka, SEND_LATENCIES, topic), SEND_LATENCIES)


def pulls_of(kafka: Kafka, topic: str) -> list[Any]:
    """Every row of pulls about the topic, likewise."""
    return _good(read_rows(kafka, PULLS, topic), PULLS)


def _good(rows: list[Row], event_topic: str) -> list[Any]:
    assert not [row.reasons for row in rows if row.reasons]
    fields = ("cluster", "broker_name", "consumer_group")
    for row in rows:
        assert row.key == key_of(event_topic, {name: getattr(row.event, name, "") for name in fields})
    return [row.event for row in rows]
