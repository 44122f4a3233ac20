"""The shards, without Spark: messages that are bad, clients that leave, and brokers that give no data."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.events import beat, clock, in_order, route
from tests.queries.logs import (
    MINUTE,
    SECOND,
    START,
    Messages,
    Rows,
    alerts,
    changed,
    comparable,
    cut_as_spark_does,
    event_of,
    expected,
    log_of,
    one_batch,
    renumbered,
)
from tests.support.engine import cut, messages_of, replay

pytestmark = [pytest.mark.replay, pytest.mark.xdist_group("logs")]


def times_of(rows: Rows, kind: str) -> dict[str, int]:
    """State to seconds since the start at which the only incident of a kind reached it."""
    assert len({row["incident_id"] for row in alerts(rows, kind)}) == 1
    return {row["state"]: (row["changed_at"] - START) // SECOND for row in alerts(rows, kind)}


@pytest.mark.parametrize("scenario", ["healthy", "slow_broker"])
def test_every_queue_of_a_healthy_group_ends_up_ok(scenario: str) -> None:
    newest = {(row["broker_name"], row["queue_id"]): row["verdict"] for row in one_batch(scenario, 1)["assignments"]}
    assert Counter(newest.values()) == {"OK": 16}


# Every row is accounted for.


def test_good_and_quarantined_messages_are_all_that_was_read() -> None:
    messages = [dict(message) for message in log_of("twins", 1)]
    spoilt = Random(5).sample(range(len(messages)), 60)
    for index in spoilt:
        messages[index]["value"] = Random(index).choice([None, b"", b"{}", messages[index]["value"][:-1], b"\xff"])
    rows = replay(cut(messages, 30))["quarantine"]
    assert sorted((row["topic"], row["partition"], row["offset"]) for row in rows) == sorted(
        (messages[index]["topic"], messages[index]["partition"], messages[index]["offset"]) for index in spoilt
    )
    raw = {(message["topic"], message["offset"]): message["value"] for message in messages}
    assert all(row["raw"] == raw[row["topic"], row["offset"]] and row["reasons"] for row in rows)


def test_bad_messages_do_not_change_what_the_good_ones_say() -> None:
    messages = log_of("twins", 1)
    bad = {"topic": PULLS, "partition": 0, "ingest_time_ms": START, "value": b"not json"}
    mixed = renumbered(part for index, message in enumerate(messages) for part in ([bad] * (index % 3) + [message]))
    rows = replay(cut_as_spark_does(mixed, 100), limit=100)
    assert comparable(rows)["alerts"] == expected("twins", 1)["alerts"]


def test_good_messages_behind_a_flood_of_bad_ones_are_waited_for() -> None:
    messages = list(log_of("healthy", 1))
    bad = {"topic": PULLS, "partition": 0, "ingest_time_ms": START, "value": b"not json"}
    middle = len(messages) // 3
    mixed = renumbered([*messages[:middle], *([bad] * 20_000), *messages[middle:]])
    assert alerts(replay(cut_as_spark_does(mixed, 1000), limit=1000)) == []


def test_a_pull_of_a_queue_the_route_lacks_is_quarantined_whole_and_not_observed() -> None:
    messages = log_of("healthy", 1)
    place = next(i for i, message in enumerate(messages) if message["topic"] == PULLS and i > 200)
    stray = changed(messages[place], queue_id=8)
    rows = replay([renumbered([*messages[:place], stray, *messages[place:]])])
    assert [(row["topic"], row["raw"], row["reasons"]) for row in rows["quarantine"]] == [
        (PULLS, stray["value"], ["unknown_queue: queue_id"])
    ]
    assert {row["queue_id"] for row in rows["assignments"]} == set(range(8))


def test_a_pull_of_a_broker_the_route_does_not_know_is_no_reason_to_quarantine() -> None:
    """A route may be older than a broker that has just come."""
    messages = log_of("healthy", 1)
    pull = next(message for message in messages if message["topic"] == PULLS)
    rows = replay([renumbered([*messages, changed(pull, broker_name="broker-new", queue_id=99)])])
    assert rows["quarantine"] == []


def test_pulls_before_any_route_are_kept() -> None:
    messages = [message for message in log_of("healthy", 1) if message["topic"] != ROUTES]
    assert replay([messages])["quarantine"] == []


# Clients that leave, brokers that give no data.


def test_a_client_that_leaves_without_naming_groups_leaves_all_its_groups() -> None:
    groups = [f"audit-{number}" for number in range(6)]  # on both shards
    (consumer,) = beat(0, "A", "h1:1")[1]["consumers"]
    consumers = [{**consumer, "consumer_group": group} for group in groups]
    beats = [beat(second, "A", "h1:1", consumers=consumers) for second in range(0, 100, 30)]
    leaving = beat(100, "A", "h1:1", consumers=[], leaving=True)
    events = in_order(route(0), *beats, leaving, *(clock(second) for second in range(5, 120, 10)))
    for batches in (1, 20):
        left = [row for row in replay(cut(messages_of(events), batches))["memberships"] if row["change"] == "LEFT"]
        assert sorted(row["consumer_group"] for row in left) == groups
        assert {row["changed_at"] for row in left} == {START + 100 * SECOND}


def without_broker(messages: Messages, broker_names: set[str], from_ms: int, to_ms: int) -> list[dict[str, Any]]:
    """The log as a collector gives it that could not ask some brokers for a while."""
    kept = []
    for message in messages:
        is_within = from_ms < message["ingest_time_ms"] - START <= to_ms
        if is_within and message["topic"] == CLOCKS:
            asked = event_of(message)["brokers_asked"]
            kept.append(changed(message, brokers_answered=[name for name in asked if name not in broker_names]))
        elif not (is_within and event_of(message).get("broker_name") in broker_names):
            kept.append(message)
    return renumbered(kept)


def test_members_of_a_silent_broker_that_was_heard_expire() -> None:
    messages = [
        message
        for message in log_of("healthy", 1)
        if not (
            message["ingest_time_ms"] > START + 2 * MINUTE
            and message["topic"] == HEARTBEATS
            and event_of(message)["broker_name"] == "broker-b"
        )
    ]
    rows = replay([renumbered(messages)])
    expired = [row for row in rows["memberships"] if row["change"] == "EXPIRED"]
    assert {row["broker_name"] for row in expired} == {"broker-b"}
    assert all(row["changed_at"] == row["last_heartbeat"] + 2 * MINUTE for row in expired)


@pytest.mark.parametrize("brokers", [{"broker-b"}, {"broker-a", "broker-b"}], ids=["one", "all"])
def test_brokers_without_data_are_reported_and_no_group_is_blamed(brokers: set[str]) -> None:
    messages = without_broker(log_of("healthy", 1), brokers, 2 * MINUTE, 8 * MINUTE)
    rows = replay([messages])
    kind = "broker_no_data" if len(brokers) == 1 else "cluster_no_data"
    assert {row["kind"] for row in alerts(rows) if row["inhibited_by"] is None} == {kind}
    assert {row["consumer_group"] for row in alerts(rows)} == {None}
    assert {row["change"] for row in rows["memberships"]} == {"JOINED"}  # none expires


def test_an_incident_of_a_broker_that_is_no_longer_heard_stays_open() -> None:
    messages = without_broker(log_of("twins", 1), {"broker-a", "broker-b"}, 4 * MINUTE, 6 * MINUTE + 30 * SECOND)
    times = times_of(replay([messages]), "duplicate_client_id")
    assert times["RESOLVED"] >= 420


def test_a_slaves_heartbeats_are_the_same_clients_once_more() -> None:
    """Clients heartbeat to masters and slaves, over a channel each."""
    log = list(Simulation(load_scenario("healthy"), 1, START).events(5 * MINUTE))
    at_slaves = [
        (topic, {**event, "broker_id": 1, "client_addr": f"{event['client_addr'].partition(':')[0]}:9"})
        for topic, event in log
        if topic == HEARTBEATS
    ]
    both = sorted([*log, *at_slaves], key=lambda entry: entry[1]["event_time_ms"])
    rows = replay([messages_of(both)])
    assert alerts(rows) == []
    assert len(rows["memberships"]) == len(replay([messages_of(log)])["memberships"])
