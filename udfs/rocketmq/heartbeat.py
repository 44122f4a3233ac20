"""What a heartbeat must tell, whoever decoded it (schemas/events.py), and whom rebalancing in the client concerns."""

import re
from collections.abc import Sequence
from typing import Protocol

BROADCASTING, POP, GRPC, SERVER_REBALANCE = "broadcasting", "pop", "grpc", "server_rebalance"
"""Why client-side rebalance does not decide a member's queues (udfs.groups.verdict_reason has the sentences)."""

_GRPC = re.compile(r"[^@]+@[0-9]+@[0-9]+@[0-9a-z]+")
"""ClientId of rocketmq-clients (gRPC): host@pid@index@nanoTime in base 36."""


class Subscription(Protocol):
    """One SubscriptionData of a heartbeat."""

    @property
    def topic(self) -> str: ...
    @property
    def sub_string(self) -> str: ...
    @property
    def expression_type(self) -> str: ...


class ConsumerData(Protocol):
    """One ConsumerData of a heartbeat."""

    @property
    def consumer_group(self) -> str: ...
    @property
    def consume_type(self) -> str: ...
    @property
    def message_model(self) -> str: ...
    @property
    def strategy(self) -> str | None: ...
    @property
    def client_rebalance(self) -> bool | None: ...
    @property
    def consume_orderly(self) -> bool | None: ...
    @property
    def subscriptions(self) -> Sequence[Subscription]: ...


class Heartbeat(Protocol):
    """A heartbeat as one broker received it on one channel."""

    @property
    def broker_name(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_addr(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def client_version(self) -> str: ...
    @property
    def without_sub(self) -> bool | None: ...
    @property
    def is_listed_only(self) -> bool | None: ...
    @property
    def event_time_ms(self) -> int: ...


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
