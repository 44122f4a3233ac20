"""Brokers whose pulls nobody tells: paged once they were missed before our eyes, whatever their times say."""

from tests.rules import default_rules
from tests.udfs.groups.facts import at
from udfs.brokers.cluster_state import ClusterState, Tick
from udfs.brokers.mute_brokers import SEEN_MS, find_mute, note_mute

RULES = default_rules()


def is_reported(cluster_state: ClusterState, second: float) -> bool:
    """Whether it may be paged at a tick, with a heartbeat just before."""
    brokers, now_ms = frozenset({"broker-a"}), at(second)
    cluster_state.heartbeat_sample.note("broker-a", "A", now_ms)
    note_mute(cluster_state, Tick(now_ms, brokers, brokers, is_own=True), now_ms - 40_000, RULES)
    return any(finding.is_ready for _, finding in find_mute(cluster_state, "c", now_ms, RULES))


def test_pulls_that_were_old_from_the_first_on_are_not_missed_before_they_were_missed_for_a_while() -> None:
    """The broker's clock is an hour behind: its first pulls look old, until it is known how far it is behind."""
    cluster_state = ClusterState(topics={"broker-a": 1})
    for group in ("g1", "g2"):
        cluster_state.pulls.note("broker-a", group, at(-3600))
    assert not is_reported(cluster_state, 65)
    assert not is_reported(cluster_state, 65 + SEEN_MS / 1000 - 1)
    assert is_reported(cluster_state, 65 + SEEN_MS / 1000)


def test_pulls_that_come_after_all_were_not_missed() -> None:
    cluster_state = ClusterState(topics={"broker-a": 1})
    for group in ("g1", "g2"):
        cluster_state.pulls.note("broker-a", group, at(0))
    assert not is_reported(cluster_state, 100)
    cluster_state.pulls.note("broker-a", "g1", at(101))
    assert not is_reported(cluster_state, 105)
    assert cluster_state.mute_at_ms == {}
