"""The expectation suites: what the contracts say of each field, and the rules that need the data around an event.

From the contracts (schemas/events.py), for each field: a column `contract_<field>`, kept or the code of the first
reason (schemas/contract.py) for which it breaks its contract. Lists of objects have separate suites.

The rules' columns are made by the reading, null where nothing can be said:

    contract          kept, or the code of the first reason why the message is refused
    ahead_ms          by how much the event's time is after Kafka's, 0 when it is not
    behind_ms         by how much it is before
    copies            how often the very same message came before, within the sample
    queue             known, unknown_queue or unknown_broker, by the topic's routes then and since
    since_last_ms     event time since the same channel's heartbeat before
    rate_percent      its cluster's events a second, as a share of what is usual for it
    source_per_second its client's events a second
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from schemas import types as T
from schemas.events import EVENTS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from schemas.expectations import Between, Expectation, InSet, Severity, Suite

KEPT, KNOWN = "kept", "known"

AHEAD_MS, BEHIND_MS = 5_000, 300_000
HEARTBEAT_MS = 45_000
USUAL_PERCENT = 1_000
FLOOD_PER_SECOND = 5_000

ENUMERATIONS: Mapping[tuple[str, str], tuple[str, ...]] = {
    (HEARTBEATS + ".consumers", "consume_type"): ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"),
    (HEARTBEATS + ".consumers", "message_model"): ("CLUSTERING", "BROADCASTING"),
    (HEARTBEATS + ".consumers", "consume_from_where"): (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
    ),
    (HEARTBEATS + ".consumers.subscriptions", "expression_type"): ("TAG", "SQL92"),
    (PULLS, "pull_status"): ("FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL", "NO_PERMISSION"),
    (SEND_LATENCIES, "send_status"): ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"),
}
"""(suite, field) to the words known for it. They are RocketMQ's, with three deprecated ones of ConsumeFromWhere.
NO_PERMISSION is not in its PullStatus: a broker that refuses a pull gives an error code.

The contract allows others: a later release may have more.
"""

CONTRACT = InSet(
    column="contract",
    values=(KEPT,),
    why="A message that breaks its contract goes to quarantine; its data is missing.",
)

_BEHIND = Between(
    column="behind_ms",
    maximum=BEHIND_MS,
    mostly=0.99,
    severity=Severity.WARNING,
    why="Late events count at the next clock event. Cause: an agent's backlog, or a slow clock.",
)

_OF_EVERY_TOPIC = (
    CONTRACT,
    Between(
        column="ahead_ms",
        maximum=AHEAD_MS,
        mostly=0.99,
        why="An event from the future advances its cluster's time, so clients look silent for longer than they are.",
    ),
    _BEHIND,
)

_COPIES = Between(
    column="copies",
    maximum=0,
    mostly=0.95,
    severity=Severity.WARNING,
    why="Duplicates change no verdict. Two agents that publish the same events double the load.",
)

_QUEUE = InSet(
    column="queue",
    values=(KNOWN,),
    mostly=0.95,
    why="No route of the topic has this queue. Routes are missing or old, or two clusters share a name.",
)

_RATE = Between(
    column="rate_percent",
    maximum=USUAL_PERCENT,
    mostly=0.9,
    severity=Severity.WARNING,
    why="Ten times the usual rate. Cause: an agent in a loop, or the same events from several agents.",
)

RULES: Mapping[str, tuple[Expectation, ...]] = {
    HEARTBEATS: (
        _COPIES,
        _RATE,
        Between(
            column="since_last_ms",
            maximum=HEARTBEAT_MS,
            mostly=0.8,
            severity=Severity.WARNING,
            why="Clients send a heartbeat every 30 s. If many are late, heartbeats get lost before Kafka.",
        ),
    ),
    PULLS: (_QUEUE, _COPIES, _RATE),
    SEND_LATENCIES: (
        _QUEUE,
        _COPIES,
        _RATE,
        Between(
            column="source_per_second",
            maximum=FLOOD_PER_SECOND,
            mostly=0.99,
            severity=Severity.WARNING,
            why="One producer floods the topic: it retries without a pause, or reports a send several times.",
        ),
    ),
    ROUTES: (),
}
"""Topic to what is expected of its events beyond the contract. The time and the entire contract are of every topic."""


def expectations_of(schema: T.StructType, suite: str) -> Iterator[Expectation]:
    """What the contract, and RocketMQ's enumerations, say of the fields of one object."""
    for field in schema.fields:
        yield InSet(
            column=f"contract_{field.name}",
            values=(KEPT,),
            why=f"{field.name}: {field.metadata['comment']}; null means: {field.metadata['null']}.",
        )
        words = ENUMERATIONS.get((suite, field.name))
        if words:
            yield InSet(
                column=field.name,
                values=words,
                severity=Severity.WARNING,
                why=f"{field.name}: a value that this release does not know; rules do not match it.",
            )


def _suites_of(topic: str, schema: T.StructType, lists: tuple[str, ...] = ()) -> Iterator[Suite]:
    rules = (*_OF_EVERY_TOPIC, *RULES.get(topic, ())) if not lists else ()
    expectations = (*rules, *expectations_of(schema, ".".join((topic, *lists))))
    yield Suite(topic, lists, schema, expectations)
    for field in schema.fields:
        if isinstance(field.data_type, T.ArrayType) and isinstance(field.data_type.element_type, T.StructType):
            yield from _suites_of(topic, field.data_type.element_type, (*lists, field.name))


SUITES: Mapping[str, Suite] = {
    suite.name: suite for topic, schema in EVENTS.items() for suite in _suites_of(topic, schema)
}
"""By name: the topic, and the lists that lead to its rows."""


def suites_of(topic: str, past_ms: int = 0) -> tuple[Suite, ...]:
    """Return a topic's suites, that of the events first. Their bound on late events is raised by `past_ms`."""
    suites = tuple(suite for suite in SUITES.values() if suite.topic == topic)
    if not past_ms:
        return suites
    raised = replace(_BEHIND, maximum=BEHIND_MS + past_ms)
    return tuple(
        replace(suite, expectations=tuple(raised if one is _BEHIND else one for one in suite.expectations))
        for suite in suites
    )
