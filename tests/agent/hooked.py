"""HookedService.java in a JVM, and the rows that its hook wrote to Kafka."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kafka import TopicPartition

from conf.settings import Kafka, Settings
from schemas.decode import decode
from schemas.events import key_of
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.spark.jars import class_path, resolve_jars
from tests.lab.oracle import RELEASES, SOURCES
from tests.lab.oracle.judge import Judge

HOOK = Path(__file__).parents[2] / "streaming" / "agent" / "BalancewatchHook.java"
SERVICE = Path(__file__).with_name("HookedService.java")

Ask = Callable[..., str]
"""Of a question and its fields; returns the answer."""


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


def events_of(kafka: Kafka, event_topic: str, topic: str) -> list[Any]:
    """What Kafka holds of an event's topic about a topic of RocketMQ; each row is good, and under its key."""
    with closing(open_consumer(kafka)) as consumer:
        return [_good(event_topic, one) for one in _records(consumer, event_topic) if topic.encode() in one.value]


def _records(consumer: Any, event_topic: str) -> Iterator[Any]:
    """All of the topic, a partition's oldest first."""
    for (name, partition), span in read_spans(consumer, [event_topic]).items():
        place = TopicPartition(name, partition)
        consumer.assign([place])
        consumer.seek(place, span.beginning)
        while consumer.position(place) < span.end:
            yield from consumer.poll(1_000).get(place, [])


def _good(event_topic: str, record: Any) -> Any:
    event, reasons = decode(event_topic, record.value, record.timestamp)
    assert not reasons
    fields = {name: getattr(event, name, "") for name in ("cluster", "broker_name", "consumer_group")}
    assert record.key == key_of(event_topic, fields)
    return event
