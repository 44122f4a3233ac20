"""Kafka consumers without a group, and the offsets of topics."""

from collections.abc import Iterable
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from conf.settings import Kafka
from streaming.kafka_io.topics import client_options


class Span(NamedTuple):
    """A partition in Kafka: `beginning` is its oldest offset, `end` the next one to be written."""

    beginning: int
    end: int


def open_consumer(kafka: Kafka) -> KafkaConsumer:
    """Return a consumer, to be closed by the caller. Raises KafkaError if no broker answers."""
    options = client_options(kafka.options)
    known = {key: value for key, value in options.items() if key in KafkaConsumer.DEFAULT_CONFIG}
    fixed = {"bootstrap_servers": kafka.bootstrap_servers.split(","), "group_id": None, "enable_auto_commit": False}
    return KafkaConsumer(**known | fixed)


def read_spans(consumer: KafkaConsumer, topics: Iterable[str]) -> dict[tuple[str, int], Span]:
    """Return the span of every partition of `topics` by (topic, partition); a missing topic has none."""
    places = [
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        for partition in sorted(consumer.partitions_for_topic(topic) or ())
    ]
    if not places:
        return {}
    beginnings, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    return {(place.topic, place.partition): Span(beginnings[place], ends[place]) for place in places}
