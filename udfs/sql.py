"""The rules as functions of Spark SQL, for notebooks and long histories: `register(spark)`.

The one file of udfs that knows Spark. What is a table of thresholds becomes a CASE of Spark's own, written from the
very tables that the rules read; allocation runs the rules themselves in Python workers, which must have this package.
Null in, null out. `DESCRIBE FUNCTION EXTENDED allocate_queues` prints its docstring.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from udfs.rocketmq.allocation import CONSISTENT_HASH, POSITIONAL, UnknownStrategyError, allocate_all
from udfs.rocketmq.fault import RULES, FaultRules, LatencyTable, compute_not_available_duration
from udfs.rocketmq.model import MessageQueue, java_order
from udfs.rocketmq.version import NEWEST, RELEASE, ClientVersion

STRATEGIES = (*POSITIONAL, CONSISTENT_HASH)
"""What can be allocated from a list of queues and one of clients; the others' options only their clients know."""

QUEUES = "ARRAY<STRUCT<broker_name: STRING, queue_id: INT>>"

Queue = tuple[str, int]


@dataclass(frozen=True)
class SqlFunction:
    """A function as Spark SQL keeps it: its parameters with their types, what it returns, and an expression."""

    name: str
    parameters: str
    returns: str
    comment: str
    body: str


def register(spark: SparkSession) -> None:
    """Make the functions known to this session. Again changes nothing."""
    spark.udf.register("_allocate_queues", udf(allocate_queues, QUEUES, useArrow=True))
    spark.udf.register("_allocate_all_queues", udf(allocate_all_queues, f"MAP<STRING, {QUEUES}>", useArrow=True))
    for one in FUNCTIONS:
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {one.name}({one.parameters}) RETURNS {one.returns} "
            f"DETERMINISTIC COMMENT '{one.comment}' RETURN {one.body}"
        )


def allocate_queues(
    strategy: str | None,
    current_cid: str | None,
    mq_all: Sequence[Queue] | None,
    cid_all: Sequence[str] | None,
    topic: str | None,
) -> list[Queue] | None:
    """The share of `current_cid`; see allocate_all_queues. Empty for a client that is not listed."""
    shares = allocate_all_queues(strategy, mq_all, cid_all, topic)
    return None if shares is None or current_cid is None else shares.get(current_cid, [])


def allocate_all_queues(
    strategy: str | None, mq_all: Sequence[Queue] | None, cid_all: Sequence[str] | None, topic: str | None
) -> dict[str, list[Queue]] | None:
    """ClientId to its share, in the strategy's order, after both lists are sorted as RebalanceImpl sorts them.

    Without queues or without clients there are no shares. Raises ValueError for a strategy that is not one of
    STRATEGIES, and for CONSISTENT_HASH without the topic, whose name it hashes.
    """
    if strategy is not None and strategy not in STRATEGIES:
        raise UnknownStrategyError(f"strategy {strategy!r} is not one of {', '.join(STRATEGIES)}")
    if strategy == CONSISTENT_HASH and topic == "":
        raise ValueError(f"{CONSISTENT_HASH} hashes the topic's name; give it as the last argument")
    if strategy is None or mq_all is None or cid_all is None or topic is None or None in cid_all:
        return None
    if any(mq is None or None in tuple(mq) for mq in mq_all):
        return None
    if not mq_all or not cid_all:
        return {}
    queues = sorted(MessageQueue(topic, broker_name, queue_id) for broker_name, queue_id in mq_all)
    shares = allocate_all(strategy, "", queues, sorted(cid_all, key=java_order))
    return {cid: [(mq.broker_name, mq.queue_id) for mq in share] for cid, share in shares.items()}


def _numbers(release: ClientVersion) -> str:
    return f"array({', '.join(map(str, release))})"


def _by_release(values: Sequence[str]) -> str:
    """A CASE over the client's release; `values` go with RULES, oldest first. Ranges that agree become one."""
    conditions = [f"release_of(client_version) >= {_numbers(rules.since)}" for rules in RULES]
    branches = list(reversed([*zip(conditions, values, strict=True)]))
    kept = [one for one, older in pairwise(branches) if one[1] != older[1]]
    whens = "".join(f" WHEN {condition} THEN {value}" for condition, value in kept)
    otherwise = branches[-1][1]
    return f"CASE WHEN client_version IS NULL THEN NULL{whens} ELSE {otherwise} END"


def _duration(rules: FaultRules) -> str:
    """MQFaultStrategy.computeNotAvailableDuration of one range of releases."""
    table = rules.latency_table
    rows = list(zip(table.latency_max_ms, table.not_available_duration_ms, strict=True))
    whens = "".join(f" WHEN latency_ms >= {latency} THEN {duration}" for latency, duration in reversed(rows))
    isolated = compute_not_available_duration(table.isolation_latency_ms, rules.since)
    return (
        f"CASE WHEN latency_ms IS NULL OR isolation IS NULL THEN NULL WHEN isolation THEN {isolated}{whens} ELSE 0 END"
    )


def _table(table: LatencyTable) -> str:
    maxima, durations = (
        f"array({', '.join(f'{value}L' for value in values)})"
        for values in (table.latency_max_ms, table.not_available_duration_ms)
    )
    return (
        f"named_struct('latency_max_ms', {maxima}, 'not_available_duration_ms', {durations}, "
        f"'isolation_latency_ms', {table.isolation_latency_ms}L)"
    )


def _available(rules: FaultRules) -> str:
    unless = "reachable AND " if rules.needs_reachable else ""
    nulls = "start_timestamp IS NULL OR moment IS NULL OR reachable IS NULL"
    return f"CASE WHEN {nulls} THEN NULL ELSE {unless}moment >= start_timestamp END"


_MATCHED = f"regexp_extract(client_version, r'^{RELEASE.pattern}', 0)"
_RELEASE_TEXT = f"concat(translate({_MATCHED}, '_vV \t\n\r\f\v', '.'), '.0')"
"""What RELEASE matches, "V5_1_4" as "5.1.4.0"; ".0" where it matches nothing. One regular expression a row."""

_NUMBERS = ", ".join(f"CAST(substring_index(substring_index(text, '.', {n}), '.', -1) AS INT)" for n in (1, 2, 3))
"""split_part would read better, and compiles a regular expression a row and number."""

_VERSION = "client_version STRING COMMENT 'such as 4.9.8 or V5_1_4; other text counts as the newest release'"
_LISTS = (
    f"mq_all {QUEUES} COMMENT 'the queues of one topic, in any order', "
    "cid_all ARRAY<STRING> COMMENT 'the ClientIds of the group, in any order, twins twice'"
)
_TOPIC = "topic STRING DEFAULT '' COMMENT 'needed by CONSISTENT_HASH, which hashes its name'"
_STRATEGY = f"strategy STRING COMMENT 'one of {', '.join(STRATEGIES)}'"

FUNCTIONS = (
    SqlFunction(
        "_release_numbers",
        "text STRING",
        "ARRAY<INT>",
        "The first three numbers of a text such as 5.1.4.0.",
        f"CASE WHEN text IS NULL THEN NULL WHEN text = '.0' THEN {_numbers(NEWEST)} ELSE array({_NUMBERS}) END",
    ),
    SqlFunction(
        "release_of",
        _VERSION,
        "ARRAY<INT>",
        "A client release as three numbers, which compare as releases do.",
        f"_release_numbers({_RELEASE_TEXT})",
    ),
    SqlFunction(
        "latency_table",
        _VERSION,
        "STRUCT<latency_max_ms: ARRAY<BIGINT>, not_available_duration_ms: ARRAY<BIGINT>, isolation_latency_ms: BIGINT>",
        "MQFaultStrategy: latencyMax and notAvailableDuration of a release, ms; the latency of an isolated send.",
        _by_release([_table(rules.latency_table) for rules in RULES]),
    ),
    SqlFunction(
        "not_available_duration",
        f"{_VERSION}, latency_ms BIGINT COMMENT 'of the send, ms', isolation BOOLEAN DEFAULT false",
        "BIGINT",
        "MQFaultStrategy.computeNotAvailableDuration: ms for which a producer avoids the broker after a send.",
        _by_release([_duration(rules) for rules in RULES]),
    ),
    SqlFunction(
        "only_extends",
        _VERSION,
        "BOOLEAN",
        "True if a quick send does not change a FaultItem (from 5.1.4), false if it makes the broker available.",
        _by_release([str(rules.only_extends).lower() for rules in RULES]),
    ),
    SqlFunction(
        "is_available",
        f"{_VERSION}, start_timestamp TIMESTAMP, moment TIMESTAMP, reachable BOOLEAN DEFAULT true",
        "BOOLEAN",
        "FaultItem.isAvailable at a moment; 5.1.4 up to 5.2.0 needs the broker to be reachable, too.",
        _by_release([_available(rules) for rules in RULES]),
    ),
    SqlFunction(
        "allocate_strategies",
        "",
        "ARRAY<STRING>",
        "The strategies that allocate_queues supports.",
        f"array({', '.join(repr(name) for name in STRATEGIES)})",
    ),
    SqlFunction(
        "allocate_queues",
        f"{_STRATEGY}, current_cid STRING, {_LISTS}, {_TOPIC}",
        QUEUES,
        "AllocateMessageQueueStrategy.allocate: the queues that one client of a group takes; lists are sorted first.",
        "_allocate_queues(strategy, current_cid, mq_all, cid_all, topic)",
    ),
    SqlFunction(
        "allocate_all_queues",
        f"{_STRATEGY}, {_LISTS}, {_TOPIC}",
        f"MAP<STRING, {QUEUES}>",
        "The queues that allocate_queues gives each client of a group, by ClientId; twins have one entry.",
        "_allocate_all_queues(strategy, mq_all, cid_all, topic)",
    ),
)
"""In the order in which they can be made: a function may use the ones before it."""
