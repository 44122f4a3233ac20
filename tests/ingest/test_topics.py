"""Kafka options by their Java names, as kafka-python's arguments."""

from typing import Any

import pytest

from streaming.ingest.topics import client_options

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
