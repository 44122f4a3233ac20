"""HookedService.java in a JVM of its own, and the rows that its hook wrote to Kafka."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafka import TopicPartition

from conf.settings import Kafka, Settings
from schemas.decode import decode
from schemas.events import PULLS, SEND_LATENCIES, key_of
from streaming.collector.rocketmq_jvm import OPENED_PACKAGES
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.spark.jars import class_path, java, resolve_jars
from tests.lab.oracle import RELEASES
from tests.support.java_sources import compile_sources

HOOK = Path(__file__).parents[2] / "streaming" / "agent" / "BalancewatchHook.java"
SERVICE = Path(__file__).with_name("HookedService.java")

END_SECONDS = 15.0


class Row(NamedTuple):
    """An event as our decoder reads it, and why it could not."""

    event: Any
    reasons: list[str]
    key: bytes


def hook_class_path(release_jars: str, jars: Path) -> str:
    """A release's class path, and the two of Kafka's jars that the hook needs beside it."""
    of_kafka = [next(resolve_jars("kafka", jars).glob(name)) for name in ("kafka-clients-*.jar", "slf4j-api-*.jar")]
    return os.pathsep.join([release_jars, *map(str, of_kafka)])


class HookedClasses:
    """The service and the hook, compiled once a release into `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, str] = {}

    def class_path(self, release: str) -> str:
        """`-cp` of the service on a release's jars."""
        if release not in self._paths:
            jars = Settings.load().paths.jars
            path = hook_class_path(class_path(RELEASES[release], jars), jars)
            classes = self._folder / release
            classes.mkdir()
            compile_sources([HOOK, SERVICE], path, classes)
            self._paths[release] = f"{classes}{os.pathsep}{path}"
        return self._paths[release]


class HookedService:
    """A service with the hook; `ask` waits for its answer."""

    def __init__(self, class_path: str, folder: Path, name_server: str, bootstrap_servers: str, topic: str) -> None:
        self._stderr = folder / "service.err"
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [
                    java(),
                    "-Xmx96m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    *OPENED_PACKAGES,
                    f"-Duser.home={folder}",
                    f"-Drocketmq.client.logRoot={folder}",
                    "-cp",
                    class_path,
                    "HookedService",
                    *(name_server, bootstrap_servers, "DefaultCluster", topic, f"g-{topic}"),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                bufsize=1,
                process_group=0,  # Ctrl-C is for us
            )
        try:
            self.client_id = self._answer()
        except BaseException:
            self.close()
            raise

    def ask(self, question: str) -> str:
        assert self._process.stdin
        self._process.stdin.write(f"{question}\n")
        return self._answer()

    def taken(self, question: str) -> int:
        """Of `send N` or `async N`: how many RocketMQ took."""
        return int(self.ask(question).split()[0])

    def faults(self) -> dict[str, int]:
        """The producer's own FaultItems: broker to when it is available."""
        return dict(json.loads(self.ask("faults")))

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, self._stderr.read_text(errors="replace")[-3000:]
        return line.strip()

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> "HookedService":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
