"""The five topics: created once, with a limit at which a too large message reaches quarantine.

Their messages carry Kafka's time (LogAppendTime), the one clock that all events have in common. Routes are kept as long
as the other events, not compacted: a replay of the past (Rewind) needs its routes, which are reported every 30 s.
"""

import contextlib
import re
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from conf.settings import Kafka
from schemas.events import EVENTS
from streaming.system.known_error import BalancewatchError


class KafkaUnreachableError(BalancewatchError):
    """No broker of `kafka.bootstrap_servers` answers."""


def client_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return kafka-python's keyword arguments for Kafka options given by their Java names.

    `security.protocol` becomes `security_protocol`; a JAAS line gives user name and password; a PEM trust store
    becomes `ssl_cafile`. Options that only Java knows are skipped.
    """
    named = {key.replace(".", "_"): value for key, value in options.items()}
    found: dict[str, Any] = {name: value for name, value in named.items() if name in KafkaProducer.DEFAULT_CONFIG}
    if jaas := options.get("sasl.jaas.config"):
        credentials = re.findall(r'\b(username|password)="([^"]*)"', jaas)
        found |= {f"sasl_plain_{key}": value for key, value in credentials}
    if options.get("ssl.truststore.type", "").upper() == "PEM" and (path := options.get("ssl.truststore.location")):
        found["ssl_cafile"] = path
    if pem := options.get("ssl.truststore.certificates"):
        found["ssl_context"] = ssl.create_default_context(cadata=pem)
    return found


def create_topics(kafka: Kafka, *, wait_seconds: float = 30.0) -> list[str]:
    """Create the missing topics and return their names. Raises KafkaUnreachableError after `wait_seconds`."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return create_missing(kafka, (new_topic(kafka, name) for name in sorted(EVENTS)))
        except KafkaError as error:
            if time.monotonic() > deadline:
                raise KafkaUnreachableError(
                    f"kafka.bootstrap_servers = {kafka.bootstrap_servers!r}: no broker answers ({type(error).__name__})"
                ) from None
            time.sleep(0.3)


def create_missing(kafka: Kafka, topics: Iterable[NewTopic]) -> list[str]:
    """Create the topics that Kafka does not have and return their names. Raises KafkaError."""
    admin = open_admin(kafka, request_timeout_ms=10_000)
    try:
        made, known = [], set(admin.list_topics())
        for topic in topics:
            if topic.name not in known:
                with contextlib.suppress(TopicAlreadyExistsError):  # another process was quicker
                    admin.create_topics([topic])
                    made.append(topic.name)
        return made
    finally:
        admin.close()


def open_admin(kafka: Kafka, **limits: int) -> KafkaAdminClient:
    """Return an admin client, to be closed by the caller. Raises KafkaError if no broker answers."""
    options = client_options(kafka.options)
    known = {key: value for key, value in options.items() if key in KafkaAdminClient.DEFAULT_CONFIG}
    return KafkaAdminClient(**known | {"bootstrap_servers": kafka.bootstrap_servers.split(",")} | limits)


def new_topic(kafka: Kafka, name: str) -> NewTopic:
    return NewTopic(
        name,
        num_partitions=dict[str, int](kafka.partitions.items()).get(name, 1),
        replication_factor=kafka.replication_factor,
        topic_configs={
            "max.message.bytes": str(16 << 20),
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": str(kafka.retention_hours * 3_600_000),
        },
    )
