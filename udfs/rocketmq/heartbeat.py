"""What a heartbeat must say, however it was decoded (schemas/events.py), and which members rebalance in the client."""

import re
from collections.abc import Sequence
from typing import Protocol

BROADCASTING, POP, GRPC, SERVER_REBALANCE = "broadcasting", "pop", "grpc", "server_rebalance"
"""Why client-side rebalance does not decide a member's queues (udfs.groups.verdict_reason has the sentences)."""

_GRPC = re.compile(r"[^@]+@[0-9]+@[0-9]+@[0-9a-z]+")
"""ClientId of rocketmq-clients (gRPC): host@pid@index@nanoTime in base 36."""


class Subscription(Protocol):
    """One SubscriptionData of a heartbeat."""

    topic: str
    sub_string: str
    expression_type: str


class ConsumerData(Protocol):
    """One ConsumerData of a heartbeat."""

    consumer_group: str
    consume_type: str
    message_model: str
    strategy: str | None
    client_rebalance: bool | None
    consume_orderly: bool | None
    subscriptions: Sequence[Subscription]


class Heartbeat(Protocol):
    """A heartbeat as one broker received it on one channel."""

    broker_name: str
    client_id: str
    client_addr: str
    language: str
    client_version: str
    without_sub: bool | None
    is_listed_only: bool | None
    event_time_ms: int


def why_not_judged(client_id: str, consumer: ConsumerData) -> str | None:
    """Why client-side rebalance does not decide this member's queues (verdict_reason); None where it does."""
    if consumer.message_model != "CLUSTERING":
        return BROADCASTING
    if consumer.consume_type == "CONSUME_POP":
        return POP
    if consumer.client_rebalance is False:
        return SERVER_REBALANCE
    return GRPC if _GRPC.fullmatch(client_id) else None


ANY = "TAG *"
"""The filter of who wants every message."""


def filters_of(consumer: ConsumerData) -> dict[str, str]:
    """Map topic to "TAG a || b" or "SQL92 ...", for the topics of which the consumer does not want every message.

    Tags are split, trimmed and compared as a set, as FilterAPI.buildSubscriptionData does: their order says nothing.
    """
    filters = {}
    for one in consumer.subscriptions:
        if one.sub_string not in ("*", ""):
            tags = sorted({tag.strip() for tag in one.sub_string.split("||")} - {""})
            expression = " || ".join(tags) if one.expression_type == "TAG" else one.sub_string
            filters[one.topic] = f"{one.expression_type} {expression}"
    return filters
