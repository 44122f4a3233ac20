"""Brokers whose pulls are reported no more: a broken feed, and what only looks like one."""

from typing import NamedTuple

import pytest

from tests.support.rules import default_rules
from tests.udfs.groups.facts import at
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.mute_brokers import SEEN_MS, find_mute, find_unserved, note_mute, note_puller_heartbeat, note_pulling
from udfs.brokers.rounds import Tick

RULES = default_rules()


class Pulling(NamedTuple):
    consumer_group: str
    client: str
    event_time_ms: int
    broker_name: str = "broker-a"
    is_held_back: bool = False


class Heartbeat(NamedTuple):
    client_id: str
    event_time_ms: int
    client_addr: str
    is_leaving: bool = False


def cluster_of(*brokers: str) -> ClusterState:
    return ClusterState(topics=dict.fromkeys(brokers or ("broker-a",), 1))


def pull(cluster_state: ClusterState, second: float, *pullers: tuple[str, str], broker: str = "broker-a") -> None:
    for group, client in pullers:
        note_pulling(cluster_state, Pulling(group, client, at(second), broker))


def is_reported(cluster_state: ClusterState, second: float, *clients: str) -> bool:
    """Whether the finding may page at a tick, with a heartbeat of each client just before."""
    brokers, now_ms = frozenset(cluster_state.topics), at(second)
    for client in clients:
        note_puller_heartbeat(cluster_state, Heartbeat(client, now_ms, f"{client[0]}:1"))
        for broker_name in brokers:
            cluster_state.heartbeat_sample.note(broker_name, client, now_ms)
    note_mute(cluster_state, Tick(now_ms, brokers, brokers, is_own=True), now_ms - 40_000, RULES)
    return any(finding.is_ready for _, finding in find_mute(cluster_state, "c", now_ms, RULES))


TWO = (("g1", "A@1"), ("g2", "B@1"))


def after_minutes(cluster_state: ClusterState, *clients: str) -> bool:
    return [is_reported(cluster_state, second, *clients) for second in (100, 150, 200)][-1]


def test_pulls_that_stop_for_two_processes_of_two_groups_at_once_are_missing() -> None:
    cluster_state = cluster_of()
    pull(cluster_state, 0, *TWO)
    assert after_minutes(cluster_state, "A@1", "B@1")


@pytest.mark.parametrize(
    "pullers",
    [
        (("g1", "A@1"), ("g2", "A@1")),
        (("g1", "10.0.0.1@7#100"), ("g2", "10.0.0.1@7#101")),
        (("g1", "A@1"), ("g1", "B@1")),
    ],
)
def test_one_process_or_one_group_that_stops_has_a_reason_of_its_own(pullers: tuple[tuple[str, str], ...]) -> None:
    cluster_state = cluster_of()
    pull(cluster_state, 0, *pullers)
    assert not after_minutes(cluster_state, *(client for _, client in pullers))


def test_clients_whose_heartbeats_stop_too_are_no_witnesses() -> None:
    cluster_state = cluster_of()
    pull(cluster_state, 0, *TWO)
    note_puller_heartbeat(cluster_state, Heartbeat("B@1", at(0), "B:1"))
    assert not after_minutes(cluster_state, "A@1")


def test_a_broker_whose_offsets_are_still_reported_has_a_feed() -> None:
    cluster_state = cluster_of()
    pull(cluster_state, 0, *TWO)
    pull(cluster_state, 10, ("g1", ""))
    assert not after_minutes(cluster_state, "A@1", "B@1")


def test_processes_that_pull_at_one_broker_each_are_witnesses_together_when_all_brokers_fall_mute() -> None:
    cluster_state = cluster_of("broker-a", "broker-b")
    pull(cluster_state, 0, TWO[0])
    pull(cluster_state, 5, TWO[1], broker="broker-b")
    assert after_minutes(cluster_state, "A@1", "B@1")
    one_goes_on = cluster_of("broker-a", "broker-b")
    pull(one_goes_on, 0, TWO[0])
    pull(one_goes_on, 180, TWO[1], broker="broker-b")
    assert not is_reported(one_goes_on, 200, "A@1", "B@1")


def test_pulls_that_were_old_from_the_first_on_are_not_missed_before_they_were_missed_for_a_while() -> None:
    """The broker's clock is an hour behind: its first pulls look old, until it is known how far it is behind."""
    cluster_state = cluster_of()
    pull(cluster_state, -3600, *TWO)
    assert not is_reported(cluster_state, 65, "A@1", "B@1")
    assert not is_reported(cluster_state, 65 + SEEN_MS / 1000 - 1, "A@1", "B@1")
    assert is_reported(cluster_state, 65 + SEEN_MS / 1000, "A@1", "B@1")


def test_pulls_that_arrive_after_all_were_not_missed() -> None:
    cluster_state = cluster_of()
    pull(cluster_state, 0, *TWO)
    assert not is_reported(cluster_state, 100, "A@1", "B@1")
    pull(cluster_state, 101, TWO[0])
    assert not is_reported(cluster_state, 105, "A@1", "B@1")
    assert cluster_state.mute_at_ms == {}


def test_clients_that_lost_their_queues_before_others_filled_their_caches_are_no_witnesses() -> None:
    cluster_state = cluster_of()
    pull(cluster_state, 0, *TWO)
    note_pulling(cluster_state, Pulling("g1", "C@1", at(60), is_held_back=True))
    assert not after_minutes(cluster_state, "A@1", "B@1", "C@1")


def unserved(cluster_state: ClusterState, second: float, *clients: str) -> list[str]:
    is_reported(cluster_state, second, *clients)
    return list(find_unserved(cluster_state, at(second) - 40_000, at(second) - RULES.pull_silence_ms))


def test_a_broker_whose_offsets_are_reported_and_where_all_pulls_stopped_serves_none() -> None:
    cluster_state = cluster_of("broker-a", "broker-b")
    pull(cluster_state, 0, *TWO)
    pull(cluster_state, 95, *TWO, broker="broker-b")
    assert unserved(cluster_state, 100, "A@1", "B@1") == []
    pull(cluster_state, 100, ("g1", ""))
    assert unserved(cluster_state, 101, "A@1", "B@1") == ["broker-a"]
    pull(cluster_state, 102, TWO[0])
    assert unserved(cluster_state, 103, "A@1", "B@1") == []


def test_one_process_without_pulls_is_no_broker_that_serves_none() -> None:
    cluster_state = cluster_of()
    pull(cluster_state, 0, ("g1", "A@1"), ("g2", "A@1"))
    pull(cluster_state, 100, ("g1", ""))
    assert unserved(cluster_state, 101, "A@1") == []
