"""Kafka options by their Java names, as kafka-python's arguments."""

from typing import Any

import pytest

from conf.settings import Settings
from schemas.events import EVENTS
from streaming.kafka_io.topics import client_options, new_topic

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="p=ss word";'


@pytest.mark.parametrize(
    ("reason", "options", "arguments"),
    [
        ("dots become underscores", {"security.protocol": "SASL_SSL"}, {"security_protocol": "SASL_SSL"}),
        ("what only Java knows is left out", {"fetch.max.wait.ms": "20"}, {}),
        (
            "a JAAS line gives user and password",
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS},
            {"sasl_mechanism": "PLAIN", "sasl_plain_username": "me", "sasl_plain_password": "p=ss word"},
        ),
        (
            "a PEM trust store is the CA file",
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl_cafile": "/ca.pem"},
        ),
    ],
)
def test_client_options(reason: str, options: dict[str, str], arguments: dict[str, Any]) -> None:
    assert client_options(options) == arguments, reason


def test_every_topic_keeps_kafkas_own_time_and_its_whole_past() -> None:
    """A compacted topic has no routes of then for who looks at the past, and holes where a cut batch is counted."""
    kafka = Settings.load(kafka={"bootstrap_servers": "x:1", "retention_hours": 48}).kafka
    configs = {name: new_topic(kafka, name).topic_configs for name in EVENTS}
    assert {of_topic["message.timestamp.type"] for of_topic in configs.values()} == {"LogAppendTime"}
    assert {of_topic["retention.ms"] for of_topic in configs.values()} == {str(48 * 3_600_000)}
    assert not any("cleanup.policy" in of_topic for of_topic in configs.values())
