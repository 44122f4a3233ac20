"""The shards, without Spark: a log gives the same rows however it is cut, and whatever comes late or twice."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import CLOCKS, HEARTBEATS, ROUTES
from streaming.queries.running import plan_of
from tests.queries.logs import (
    MINUTE,
    SCENARIOS,
    SEEDS,
    Messages,
    alerts,
    changed,
    comparable,
    cut_as_spark_does,
    event_of,
    expected,
    log_of,
    renumbered,
)
from tests.support.engine import cut, replay
from tests.support.examples import examples
from tests.support.tiers import in_proof

pytestmark = [pytest.mark.replay, pytest.mark.xdist_group("logs")]

# However the log is cut.


def test_every_message_a_batch_gives_the_same_rows() -> None:
    messages = log_of("twins", 2, 4 * MINUTE)
    assert comparable(replay([message] for message in messages)) == comparable(replay([messages]))


@pytest.mark.parametrize(
    ("scenario", "limit"),
    [
        *(("twins", 9), ("frozen_client", 1000)),
        *((name, 60) for name in SCENARIOS if name not in ("healthy", "slow_broker")),
        *in_proof([("frozen_client", 9), ("healthy", 60), ("slow_broker", 60)]),
        *in_proof([(name, 1000) for name in SCENARIOS if name != "frozen_client"]),
    ],
)
def test_a_backlog_cut_by_max_offsets_per_trigger_gives_the_same_rows(scenario: str, limit: int) -> None:
    messages = log_of(scenario, 1)
    assert comparable(replay(cut_as_spark_does(messages, limit), limit=limit)) == expected(scenario, 1)


@examples(5)
@given(st.sampled_from(["twins", "frozen_client", "reconnect"]), st.integers(1, 50), st.integers(5, 400))
def test_any_seed_and_any_limit_give_the_same_rows(scenario: str, seed: int, limit: int) -> None:
    """A batch that is full says nothing of its end; the clock once more does."""
    messages = log_of(scenario, seed, 4 * MINUTE)
    once_more = [messages[-1]]
    cuts = [*cut_as_spark_does(messages, limit), once_more]
    assert comparable(replay(cuts, limit=limit)) == comparable(replay([messages, once_more]))


@pytest.mark.parametrize("limit", [300, 1000])
def test_a_backlog_whose_routes_were_compacted_is_known_to_be_cut(limit: int) -> None:
    """The offsets of overwritten routes count towards Spark's limit, and show nothing."""
    messages = log_of("healthy", 1)
    dense = [one for one in messages if one["topic"] != ROUTES or one["offset"] % 7 == 0]
    kept = {(one["topic"], one["offset"]) for one in dense}
    whole = [*cut_as_spark_does(padded(messages), limit)]
    batches = [[one for one in batch if (one["topic"], one["offset"]) in kept] for batch in whole]
    plans = [plan_of(Counter((one["topic"], one["partition"]) for one in batch), limit) for batch in whole]
    rows = replay(batches, limit=limit, plans=plans)
    assert alerts(rows) == []
    assert comparable(rows)["assignments"] == comparable(replay([dense]))["assignments"]


def padded(messages: Messages) -> list[dict[str, Any]]:
    """The log as its offsets were given: ten routes that were overwritten since for each one that is there."""
    out: list[dict[str, Any]] = []
    for one in messages:
        out += [{**one, "offset": -1}] * 10 * (one["topic"] == ROUTES) + [one]
    return out


def of_cluster(messages: Messages, cluster: str) -> list[dict[str, Any]]:
    return [changed(message, cluster=cluster) for message in messages]


def by_time(*logs: Messages) -> list[dict[str, Any]]:
    """Several clusters in one Kafka: in the order of time."""
    merged = [message for log in logs for message in log]
    return renumbered(sorted(merged, key=lambda message: message["ingest_time_ms"]))


@pytest.mark.parametrize("limit", [60, *in_proof([333])])
def test_two_clusters_in_one_kafka_give_what_each_gives_alone(limit: int) -> None:
    east, west = of_cluster(log_of("twins", 1), "east"), of_cluster(log_of("frozen_client", 2), "west")
    both = by_time(east, west)
    alone = sorted(comparable(replay([east]))["alerts"] + comparable(replay([west]))["alerts"])
    assert comparable(replay([both]))["alerts"] == alone
    assert comparable(replay(cut_as_spark_does(both, limit), limit=limit))["alerts"] == alone


def test_a_cluster_whose_backlog_stands_behind_anothers_is_waited_for() -> None:
    east, west = of_cluster(log_of("healthy", 1), "east"), of_cluster(log_of("healthy", 2), "west")
    both = renumbered([*east, *west])
    ordered = [message for message in both if message["topic"] != CLOCKS] + [
        message for message in by_time(east, west) if message["topic"] == CLOCKS
    ]
    rows = replay(cut_as_spark_does(renumbered(ordered), 300), limit=300)
    assert comparable(rows) == comparable(replay([ordered]))


# Late and repeated messages.


def test_a_late_heartbeat_joins_at_its_own_time() -> None:
    messages = log_of("healthy", 1)
    place = next(i for i, m in enumerate(messages) if m["topic"] == CLOCKS)
    beats = [m for m in messages[:place] if m["topic"] == HEARTBEATS and event_of(m)["consumers"]]
    client_addr = event_of(beats[0])["client_addr"]
    late = [m for m in beats if event_of(m)["client_addr"] == client_addr]
    in_time = [m for m in messages[:place] if m not in late]
    rows = replay([[*in_time, messages[place]], late, messages[place + 1 :]])
    joined = [row for row in rows["memberships"] if row["client_addr"] == client_addr]
    assert [(row["change"], row["changed_at"]) for row in joined] == [("JOINED", beats[0]["ingest_time_ms"])]


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_said_again_in_a_later_batch_change_nothing(seed: int) -> None:
    """A producer that did not hear its answer sends again; that is seconds later."""
    messages = log_of("twins", seed)
    rng = Random(seed)
    again: list[list[dict[str, Any]]] = []
    for batch in cut(messages, 150):
        again.append([*batch, *([m for m in again[-1] if rng.random() < 0.3] if again else [])])
    assert comparable(replay(again))["alerts"] == expected("twins", seed)["alerts"]


def test_a_second_clock_that_runs_behind_changes_nothing() -> None:
    """`run` and a collector may both keep time; a tick that is already past covers late events all the same."""
    messages = log_of("twins", 1)
    behind = [
        changed(message, source="run", event_time_ms=message["ingest_time_ms"] - 2500)
        for message in messages
        if message["topic"] == CLOCKS
    ]
    batches = []
    for batch in cut(messages, 120):
        covered = {message["ingest_time_ms"] - 2500 for message in batch if message["topic"] == CLOCKS}
        batches.append([*batch, *(one for one in behind if one["ingest_time_ms"] in covered)])
    merged = [message for batch in batches for message in batch]
    assert comparable(replay(batches))["alerts"] == comparable(replay([merged]))["alerts"]
