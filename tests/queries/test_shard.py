"""The shards, without Spark: they name what really starves, and a log gives the same rows however it is cut."""

from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.ingest.simulator import Simulation, load_scenario
from tests.examples import examples
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
    log_of,
    renumbered,
    starved_queues,
)
from tests.replay import cut, messages_of, replay

pytestmark = pytest.mark.replay

SCENARIOS = ("twins", "frozen_client", "slow_broker", "healthy", "reconnect")
SEEDS = (1, 2, 3)


@cache
def one_batch(scenario: str, seed: int) -> Rows:
    return replay([log_of(scenario, seed)[0]])


@cache
def expected(scenario: str, seed: int) -> dict[str, list[str]]:
    """What every other cut of the log must give, too."""
    return comparable(one_batch(scenario, seed))


def times_of(rows: Rows, kind: str) -> dict[str, int]:
    """State to seconds since the start at which the only incident of a kind reached it."""
    assert len({row["incident_id"] for row in alerts(rows, kind)}) == 1
    return {row["state"]: (row["changed_at"] - START) // SECOND for row in alerts(rows, kind)}


# What the alerts say, held against the truth of the modelled cluster.


@pytest.mark.parametrize("seed", SEEDS)
def test_twins_are_paged_once_with_exactly_the_queues_that_starve(seed: int) -> None:
    rows = one_batch("twins", seed)
    truth = starved_queues(log_of("twins", seed)[1], "duplicate_client_id")
    cause, effect = alerts(rows, "duplicate_client_id"), alerts(rows, "starved_queue")
    assert [row["state"] for row in cause] == [row["state"] for row in effect] == ["FIRING", "RESOLVED"]
    assert {row["consumer_group"]: row["queues"] for row in cause} == truth
    assert {row["consumer_group"]: row["queues"] for row in effect} == truth
    assert {row["cause"] for row in rows["alerts"]} == {"duplicate_client_id"}
    assert cause[0]["client_id"] == "172.17.0.2@7"
    assert "10.20.0.11" in cause[0]["advice"]
    assert "10.20.0.12" in cause[0]["advice"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_starved_queues_of_twins_are_explained_by_the_duplicate_and_do_not_page(seed: int) -> None:
    rows = one_batch("twins", seed)
    incident_id = alerts(rows, "duplicate_client_id")[0]["incident_id"]
    assert all(row["suppressed_by"] == incident_id for row in alerts(rows, "starved_queue"))
    assert all(row["suppressed_by"] is None for row in alerts(rows, "duplicate_client_id"))


@pytest.mark.parametrize("seed", SEEDS)
def test_twins_are_told_within_a_heartbeat_and_a_rebalance_of_their_start(seed: int) -> None:
    times = times_of(one_batch("twins", seed), "duplicate_client_id")
    assert 60 < times["FIRING"] <= 60 + 30 + 5  # started at 60 s; each must be heard after the other's first
    assert 420 <= times["RESOLVED"] <= 425


@pytest.mark.parametrize("seed", SEEDS)
def test_a_frozen_client_is_named_with_exactly_its_queues(seed: int) -> None:
    rows = one_batch("frozen_client", seed)
    truth = starved_queues(log_of("frozen_client", seed)[1], "frozen_client")
    assert [(row["kind"], row["state"], row["cause"]) for row in alerts(rows)] == [
        ("starved_queue", "FIRING", "frozen_client"),
        ("starved_queue", "RESOLVED", "frozen_client"),
    ]
    assert {row["consumer_group"]: row["queues"] for row in alerts(rows)} == truth
    assert alerts(rows)[0]["client_id"] == "10.20.0.12@5120#81203344120874"
    assert alerts(rows)[0]["suppressed_by"] is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_frozen_client_is_told_between_a_late_heartbeat_and_the_brokers_expiry(seed: int) -> None:
    times = times_of(one_batch("frozen_client", seed), "starved_queue")
    frozen, last_heartbeat = 60, 30
    assert last_heartbeat + 70 <= times["FIRING"] <= frozen + 70 + 5
    assert last_heartbeat + 120 <= times["RESOLVED"] <= frozen + 120 + 30


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", ["healthy", "reconnect", "slow_broker"])
def test_nothing_is_said_when_no_queue_starves_for_a_cause_that_is_ours(scenario: str, seed: int) -> None:
    assert alerts(one_batch(scenario, seed)) == []


@pytest.mark.parametrize("scenario", ["healthy", "slow_broker"])
def test_every_queue_of_a_healthy_group_ends_up_ok(scenario: str) -> None:
    newest = {(row["broker_name"], row["queue_id"]): row["verdict"] for row in one_batch(scenario, 1)["assignments"]}
    assert Counter(newest.values()) == {"OK": 16}


@pytest.mark.parametrize("seed", [1])
def test_the_demo_pages_once_for_the_twins_and_once_for_the_frozen_client(seed: int) -> None:
    messages, truth = log_of("demo", seed, 15 * MINUTE)
    rows = replay([messages])
    told = [row for row in alerts(rows) if not row["suppressed_by"] and row["severity"] != "info"]
    pages = {(row["kind"], row["consumer_group"]): row["queues"] for row in told}
    assert pages == {
        **{("duplicate_client_id", group): q for group, q in starved_queues(truth, "duplicate_client_id").items()},
        **{("starved_queue", group): q for group, q in starved_queues(truth, "frozen_client").items()},
    }
    assert Counter(row["state"] for row in told) == {"FIRING": 2, "RESOLVED": 2}


# However the log is cut.


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_one_batch_or_a_hundred_give_the_same_rows(scenario: str) -> None:
    messages, _ = log_of(scenario, 1)
    assert comparable(replay(cut(messages, 100))) == expected(scenario, 1)


def test_every_message_a_batch_gives_the_same_rows() -> None:
    messages, _ = log_of("twins", 2)
    assert comparable(replay([message] for message in messages)) == expected("twins", 2)


@pytest.mark.parametrize(
    ("scenario", "limit"),
    [("twins", 9), ("frozen_client", 9), *((name, limit) for name in SCENARIOS for limit in (60, 1000))],
)
def test_a_backlog_cut_by_max_offsets_per_trigger_gives_the_same_rows(scenario: str, limit: int) -> None:
    messages, _ = log_of(scenario, 1)
    assert comparable(replay(cut_as_spark_does(messages, limit), limit=limit)) == expected(scenario, 1)


@examples(5)
@given(st.sampled_from(["twins", "frozen_client", "reconnect"]), st.integers(1, 50), st.integers(5, 400))
def test_any_seed_and_any_limit_give_the_same_rows(scenario: str, seed: int, limit: int) -> None:
    messages = log_of(scenario, seed, 4 * MINUTE)[0]
    assert comparable(replay(cut_as_spark_does(messages, limit), limit=limit)) == comparable(replay([messages]))


@examples(5)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_cuts_at_any_place_give_the_same_rows(dice: int, batches: int) -> None:
    messages, _ = log_of("twins", 1)
    places = sorted(Random(dice).sample(range(1, len(messages)), batches))
    pieces = [messages[a:b] for a, b in zip([0, *places], [*places, len(messages)], strict=True)]
    assert comparable(replay(pieces)) == expected("twins", 1)


def of_cluster(messages: Messages, cluster: str) -> list[dict[str, Any]]:
    return [changed(message, cluster=cluster) for message in messages]


def by_time(*logs: Messages) -> list[dict[str, Any]]:
    """Several clusters in one Kafka: in the order of time."""
    merged = [message for log in logs for message in log]
    return renumbered(sorted(merged, key=lambda message: message["ingest_time_ms"]))


@pytest.mark.parametrize("limit", [60, 333])
def test_two_clusters_in_one_kafka_give_what_each_gives_alone(limit: int) -> None:
    east, west = of_cluster(log_of("twins", 1)[0], "east"), of_cluster(log_of("frozen_client", 2)[0], "west")
    both = by_time(east, west)
    alone = sorted(comparable(replay([east]))["alerts"] + comparable(replay([west]))["alerts"])
    assert comparable(replay([both]))["alerts"] == alone
    assert comparable(replay(cut_as_spark_does(both, limit), limit=limit))["alerts"] == alone


def test_a_cluster_whose_backlog_stands_behind_anothers_is_waited_for() -> None:
    east, west = of_cluster(log_of("healthy", 1)[0], "east"), of_cluster(log_of("healthy", 2)[0], "west")
    both = renumbered([*east, *west])
    ordered = [message for message in both if message["topic"] != CLOCKS] + [
        message for message in by_time(east, west) if message["topic"] == CLOCKS
    ]
    rows = replay(cut_as_spark_does(renumbered(ordered), 300), limit=300)
    assert comparable(rows) == comparable(replay([ordered]))


# Every row is accounted for.


def test_good_and_quarantined_messages_are_all_that_was_read() -> None:
    messages = [dict(message) for message in log_of("twins", 1)[0]]
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
    messages = log_of("twins", 1)[0]
    bad = {"topic": PULLS, "partition": 0, "ingest_time_ms": START, "value": b"not json"}
    mixed = renumbered(part for index, message in enumerate(messages) for part in ([bad] * (index % 3) + [message]))
    rows = replay(cut_as_spark_does(mixed, 100), limit=100)
    assert comparable(rows)["alerts"] == expected("twins", 1)["alerts"]


def test_good_messages_behind_a_flood_of_bad_ones_are_waited_for() -> None:
    messages = list(log_of("healthy", 1)[0])
    bad = {"topic": PULLS, "partition": 0, "ingest_time_ms": START, "value": b"not json"}
    middle = len(messages) // 3
    mixed = renumbered([*messages[:middle], *([bad] * 20_000), *messages[middle:]])
    assert alerts(replay(cut_as_spark_does(mixed, 1000), limit=1000)) == []


def test_a_pull_of_a_queue_the_route_lacks_is_quarantined_whole_and_not_observed() -> None:
    messages = log_of("healthy", 1)[0]
    place = next(i for i, message in enumerate(messages) if message["topic"] == PULLS and i > 200)
    stray = changed(messages[place], queue_id=8)
    rows = replay([renumbered([*messages[:place], stray, *messages[place:]])])
    assert [(row["topic"], row["raw"], row["reasons"]) for row in rows["quarantine"]] == [
        (PULLS, stray["value"], ["unknown_queue: queue_id"])
    ]
    assert {row["queue_id"] for row in rows["assignments"]} == set(range(8))


def test_a_pull_of_a_broker_the_route_does_not_know_is_no_reason_to_quarantine() -> None:
    """A route may be older than a broker that has just come."""
    messages = log_of("healthy", 1)[0]
    pull = next(message for message in messages if message["topic"] == PULLS)
    rows = replay([renumbered([*messages, changed(pull, broker_name="broker-new", queue_id=99)])])
    assert rows["quarantine"] == []


def test_pulls_before_any_route_are_kept() -> None:
    messages = [message for message in log_of("healthy", 1)[0] if message["topic"] != ROUTES]
    assert replay([messages])["quarantine"] == []


# Clients that leave, brokers that are not heard.


def client_events(messages: Messages, client_id: str) -> list[dict[str, Any]]:
    return [m for m in messages if m["topic"] == HEARTBEATS and event_of(m)["client_id"] == client_id]


def test_a_client_that_leaves_without_naming_groups_leaves_all_its_groups() -> None:
    messages = log_of("demo", 1, 2 * MINUTE)[0]
    beats = client_events(messages, "10.20.0.41@902#70511902733401")
    two_groups = []
    for message in messages:
        event = event_of(message)
        if message in beats:
            consumer = event["consumers"][0]
            groups = [f"audit-{number}" for number in range(6)]  # on both shards
            two_groups.append(changed(message, consumers=[{**consumer, "consumer_group": g} for g in groups]))
        else:
            two_groups.append(message)
    left_ms = START + 100 * SECOND
    leaving = [
        changed(beat, consumers=[], leaving=True, event_time_ms=left_ms)
        for beat in {event_of(beat)["broker_name"]: beat for beat in beats}.values()
    ]
    kept = [m for m in two_groups if m["ingest_time_ms"] <= left_ms or b"902#" not in m["value"]]
    merged = sorted([*kept, *leaving], key=lambda m: (m["ingest_time_ms"], m["topic"] == CLOCKS))
    for batches in (1, 500):
        rows = replay(cut(renumbered(merged), batches))["memberships"]
        left = [row for row in rows if row["change"] == "LEFT" and row["client_id"].endswith("902#70511902733401")]
        assert sorted((row["consumer_group"], row["broker_name"]) for row in left) == sorted(
            (f"audit-{number}", broker) for number in range(6) for broker in ("broker-a", "broker-b")
        )
        assert {row["changed_at"] for row in left} == {left_ms}


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


def test_members_of_an_unheard_broker_do_not_expire() -> None:
    messages = without_broker(log_of("healthy", 1)[0], {"broker-b"}, 2 * MINUTE, 6 * MINUTE)
    rows = replay([messages])
    assert {row["change"] for row in rows["memberships"]} == {"JOINED"}


def test_members_of_a_silent_broker_that_was_heard_expire() -> None:
    messages = [
        message
        for message in log_of("healthy", 1)[0]
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
def test_queues_of_brokers_that_were_not_heard_are_nobodys_fault(brokers: set[str]) -> None:
    messages = without_broker(log_of("healthy", 1)[0], brokers, 2 * MINUTE, 8 * MINUTE)
    assert alerts(replay([messages])) == []


def test_an_incident_of_a_broker_that_is_no_longer_heard_stays_open() -> None:
    messages = without_broker(log_of("twins", 1)[0], {"broker-a", "broker-b"}, 4 * MINUTE, 6 * MINUTE + 30 * SECOND)
    times = times_of(replay([messages]), "duplicate_client_id")
    assert times["RESOLVED"] >= 420


# Late and repeated messages.


def delayed(messages: Messages, topics: set[str], share: float, dice: Random) -> list[list[dict[str, Any]]]:
    """One batch a tick; some messages come a tick or two after the one that should have covered them."""
    batches: list[list[dict[str, Any]]] = [[]]
    late: list[tuple[int, dict[str, Any]]] = []
    for message in messages:
        if message["topic"] in topics and dice.random() < share:
            late.append((len(batches) + dice.randrange(1, 3), message))
        else:
            batches[-1].append(message)
        if message["topic"] == CLOCKS:
            batches.append([one for due, one in late if due == len(batches)])
    batches.append([one for due, one in late if due >= len(batches)])
    return batches


@pytest.mark.parametrize("seed", SEEDS)
def test_events_that_come_after_their_tick_are_applied(seed: int) -> None:
    messages, truth = log_of("twins", seed)
    batches = delayed(messages, {HEARTBEATS, PULLS}, 0.2, Random(seed))
    rows = replay(batches)
    for kind in ("duplicate_client_id", "starved_queue"):
        of_kind = alerts(rows, kind)
        assert [of_kind[0]["state"], of_kind[-1]["state"]] == ["FIRING", "RESOLVED"]
        assert {of_kind[0]["consumer_group"]: of_kind[0]["queues"]} == starved_queues(truth, "duplicate_client_id")
        assert len({row["incident_id"] for row in of_kind}) == 1


@pytest.mark.parametrize("scenario", ["healthy", "reconnect"])
@pytest.mark.parametrize("seed", SEEDS)
def test_late_events_alone_raise_no_alarm(scenario: str, seed: int) -> None:
    batches = delayed(log_of(scenario, seed)[0], {HEARTBEATS, PULLS, ROUTES}, 0.2, Random(seed))
    assert alerts(replay(batches)) == []


def test_a_late_heartbeat_joins_at_its_own_time() -> None:
    messages = log_of("healthy", 1)[0]
    place = next(i for i, m in enumerate(messages) if m["topic"] == CLOCKS)
    beats = [m for m in messages[:place] if m["topic"] == HEARTBEATS and event_of(m)["consumers"]]
    client_addr = event_of(beats[0])["client_addr"]
    late = [m for m in beats if event_of(m)["client_addr"] == client_addr]
    in_time = [m for m in messages[:place] if m not in late]
    rows = replay([[*in_time, messages[place]], late, messages[place + 1 :]])
    joined = [row for row in rows["memberships"] if row["client_addr"] == client_addr]
    assert [(row["change"], row["changed_at"]) for row in joined] == [("JOINED", beats[0]["ingest_time_ms"])]


@pytest.mark.parametrize("scenario", ["twins", "frozen_client", "healthy"])
def test_messages_said_twice_at_once_change_nothing(scenario: str) -> None:
    messages = log_of(scenario, 1)[0]
    doubled = renumbered(message for message in messages for _ in range(2))
    assert comparable(replay([doubled])) == expected(scenario, 1)
    assert comparable(replay(cut(doubled, 50))) == expected(scenario, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_said_again_in_a_later_batch_change_nothing(seed: int) -> None:
    """A producer that did not hear its answer sends again; that is seconds later."""
    messages = log_of("twins", seed)[0]
    dice = Random(seed)
    again: list[list[dict[str, Any]]] = []
    for batch in cut(messages, 150):
        again.append([*batch, *([m for m in again[-1] if dice.random() < 0.3] if again else [])])
    assert comparable(replay(again))["alerts"] == expected("twins", seed)["alerts"]


def test_a_second_clock_that_runs_behind_changes_nothing() -> None:
    """`run` and a collector may both keep time; a tick that is already past covers late events all the same."""
    messages = log_of("twins", 1)[0]
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


# Smallest logs: one group, one broker, told by hand.


def route(second: float, queues: int = 8) -> tuple[str, dict[str, Any]]:
    data = {"broker_name": "broker-a", "read_queue_nums": queues, "write_queue_nums": queues, "perm": 6}
    at_ms = START + round(second * SECOND)
    return ROUTES, {"cluster": "c", "topic": "orders", "queues": [data], "brokers": [], "event_time_ms": at_ms}


def clock(second: float, source: str = "collector") -> tuple[str, dict[str, Any]]:
    at_ms = START + round(second * SECOND)
    brokers: dict[str, list[str]] = {"brokers_asked": ["broker-a"], "brokers_answered": ["broker-a"]}
    return CLOCKS, {"cluster": "c", "source": source, **brokers, "event_time_ms": at_ms}


def beat(second: float, client_id: str, client_addr: str, **told: Any) -> tuple[str, dict[str, Any]]:
    subscription = {"topic": "orders", "sub_string": "*", "sub_version": 1, "expression_type": "TAG"}
    consumer = {
        "consumer_group": "g",
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "subscriptions": [subscription],
    }
    return HEARTBEATS, {
        "cluster": "c",
        "broker_name": "broker-a",
        "client_id": client_id,
        "client_addr": client_addr,
        "language": "JAVA",
        "client_version": "4.8.0",
        "producer_groups": [],
        "consumers": [consumer],
        "event_time_ms": START + round(second * SECOND),
        **told,
    }


def pull(second: float, queue_id: int) -> tuple[str, dict[str, Any]]:
    return PULLS, {
        "cluster": "c",
        "broker_name": "broker-a",
        "broker_id": 0,
        "topic": "orders",
        "queue_id": queue_id,
        "consumer_group": "g",
        "client_addr": "h1:1",
        "client_id": "A",
        "pull_offset": 1,
        "event_time_ms": START + round(second * SECOND),
    }


def planned_owners(rows: Rows) -> list[str | None]:
    return [row["planned_owner"] for row in sorted(rows["assignments"], key=lambda r: r["changed_at"])][-8:]


@pytest.mark.parametrize(
    "last_batches",
    [
        pytest.param([4], id="with_a_new_tick"),
        pytest.param(
            [2, 2],
            id="with_a_past_tick",
        ),
    ],
)
def test_a_late_leave_is_planned_for_at_the_next_tick(last_batches: list[int]) -> None:
    first = [route(0), beat(0, "A", "h1:1"), *(pull(1, queue_id) for queue_id in range(8)), clock(5)]
    then = [beat(3, "A", "h1:1", leaving=True), clock(4, source="run"), clock(10), clock(15)]
    messages = messages_of([*first, *then])
    batches, start = [messages[: len(first)]], len(first)
    for size in last_batches:
        batches.append(messages[start : start + size])
        start += size
    rows = replay(batches)
    assert [row["change"] for row in rows["memberships"]] == ["JOINED", "LEFT"]
    assert planned_owners(rows) == [None] * 8


def test_an_old_route_that_comes_late_changes_nothing() -> None:
    events = [
        route(0),
        beat(0, "A", "h1:1"),
        clock(5),
        route(30),
        clock(35),
        route(10, queues=4),
        pull(37, 7),
        clock(40),
    ]
    messages = messages_of(events)
    assert replay([messages])["quarantine"] == []
    assert replay([message] for message in messages)["quarantine"] == []


def test_a_client_whose_port_is_taken_over_by_another_leaves_the_memberships() -> None:
    rows = replay(
        [messages_of([route(0), beat(0, "A", "h1:1"), clock(5), beat(6, "B", "h1:1"), clock(10), clock(500)])]
    )
    newest = {row["client_id"]: row["change"] for row in rows["memberships"]}
    assert newest["B"] == "EXPIRED"
    assert newest["A"] != "JOINED"


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
