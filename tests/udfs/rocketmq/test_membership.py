"""Views of a group: channels that come, stay and go, and what makes two of them twins."""

import pytest

from tests.udfs.groups.facts import ConsumerData, Heartbeat, at, subscribes
from udfs.rocketmq.heartbeat import why_not_judged
from udfs.rocketmq.membership import EXPIRED, JOINED, LEFT, Membership, Twins, newest_heartbeats

EXPIRED_MS = 120_000
NOBODY: frozenset[str] = frozenset()


def heard(*beats: tuple[str, str, float], broker_name: str = "broker-a") -> Membership:
    """A view after heartbeats of (client_id, client_addr, second)."""
    membership = Membership()
    for client_id, client_addr, second in beats:
        membership.register(Heartbeat(client_id, client_addr, at(second), broker_name), subscribes("orders"))
    return membership


def test_views_of_two_brokers_are_never_merged() -> None:
    membership = Membership()
    for broker_name, addr in (("broker-a", "h1:1"), ("broker-b", "h2:1")):
        membership.register(Heartbeat("id@7", addr, at(0), broker_name), subscribes("orders"))
        membership.register(Heartbeat("id@7", addr, at(30), broker_name), subscribes("orders"))
    assert {name: list(view) for name, view in membership.views.items()} == {"broker-a": ["h1:1"], "broker-b": ["h2:1"]}
    assert membership.twins(EXPIRED_MS) == []


def test_the_first_heartbeat_of_a_channel_joins_and_later_ones_refresh() -> None:
    membership = Membership()
    first = membership.register(Heartbeat("id@7", "h1:1", at(0)), subscribes("orders"))
    assert first is not None
    assert (first.change, first.at_ms, first.member.topics) == (JOINED, at(0), ["orders"])
    assert membership.register(Heartbeat("id@7", "h1:1", at(30)), subscribes("orders")) is None
    assert membership.views["broker-a"]["h1:1"].last_heartbeat_ms == at(30)


def test_an_older_heartbeat_lengthens_the_span_and_changes_nothing_else() -> None:
    membership = Membership()
    membership.register(Heartbeat("id@7", "h1:1", at(30)), subscribes("orders", strategy="AVG"))
    membership.register(Heartbeat("id@7", "h1:1", at(0)), subscribes("old", strategy="AVG_BY_CIRCLE"))
    one = membership.views["broker-a"]["h1:1"]
    assert (one.first_heartbeat_ms, one.last_heartbeat_ms) == (at(0), at(30))
    assert (one.topics, one.strategy) == (["orders"], "AVG")


BOTH_BY_CIRCLE = subscribes("orders", "payments", strategy="AVG_BY_CIRCLE")


@pytest.mark.parametrize(
    ("without_sub", "later", "topics", "strategy"),
    [
        (True, subscribes(), ["orders", "payments"], "AVG_BY_CIRCLE"),  # keeps what is known
        (None, subscribes("payments"), ["payments"], "AVG_BY_CIRCLE"),  # a strategy that is not described is kept
        (None, subscribes("orders", strategy="AVG"), ["orders"], "AVG"),
    ],
)
def test_a_later_heartbeat_replaces_what_it_describes(
    without_sub: bool | None, later: ConsumerData, topics: list[str], strategy: str
) -> None:
    membership = Membership()
    membership.register(Heartbeat("id@7", "h1:1", at(0)), BOTH_BY_CIRCLE)
    membership.register(Heartbeat("id@7", "h1:1", at(30), without_sub=without_sub), later)
    known = membership.views["broker-a"]["h1:1"]
    assert (known.topics, known.strategy) == (topics, strategy)


def test_a_client_that_unregisters_leaves_one_brokers_view_at_once() -> None:
    membership = heard(("id@7", "h1:1", 0))
    change = membership.unregister("broker-a", "h1:1", at(10))
    assert change is not None
    assert (change.change, change.at_ms) == (LEFT, at(10))
    assert membership.is_empty()


def test_a_heartbeat_from_before_the_leave_stays_out_and_a_later_one_joins_again() -> None:
    membership = heard(("id@7", "h1:1", 0))
    membership.unregister("broker-a", "h1:1", at(10))
    assert membership.register(Heartbeat("id@7", "h1:1", at(10)), subscribes("orders")) is None
    assert membership.is_empty()
    again = membership.register(Heartbeat("id@7", "h1:1", at(11)), subscribes("orders"))
    assert again is not None
    assert again.change == JOINED


def test_a_leave_that_comes_before_its_heartbeats_still_counts() -> None:
    membership = Membership()
    assert membership.unregister("broker-a", "h1:1", at(10)) is None
    assert membership.register(Heartbeat("id@7", "h1:1", at(0)), subscribes("orders")) is None
    assert membership.is_empty()


@pytest.mark.parametrize(("second", "is_expired"), [(119.999, False), (120, True), (500, True)])
def test_a_channel_expires_after_exactly_120_seconds_of_silence(second: float, is_expired: bool) -> None:
    changes = list(heard(("id@7", "h1:1", 0)).expire(at(second), EXPIRED_MS, NOBODY))
    assert [(change.change, change.at_ms) for change in changes] == ([(EXPIRED, at(120))] if is_expired else [])


def test_nobody_expires_at_a_broker_that_was_not_heard() -> None:
    membership = heard(("id@7", "h1:1", 0))
    membership.register(Heartbeat("id@7", "h1:2", at(0), "broker-b"), subscribes("orders"))
    changes = list(membership.expire(at(500), EXPIRED_MS, frozenset({"broker-a"})))
    assert [change.broker_name for change in changes] == ["broker-b"]
    assert list(membership.views) == ["broker-a"]


def test_a_farewell_is_forgotten_after_the_time_a_late_heartbeat_could_matter() -> None:
    membership = heard(("id@7", "h1:1", 0))
    membership.unregister("broker-a", "h1:1", at(10))
    assert list(membership.expire(at(129), EXPIRED_MS, NOBODY)) == []
    assert membership.left
    assert list(membership.expire(at(130), EXPIRED_MS, NOBODY)) == []
    assert not membership.left


# Twins. Each row: number, reason, heartbeats at one broker (client and channel, then the second), the proven
# channels, and since when.
A, B = "172.17.0.2@7", "172.17.0.3@7"
TWINS = [
    (1, "one client", "A1 0, A1 30", [], None),
    (2, "two clients with their own ids", "A1 0, B2 0, A1 30, B2 30", [], None),
    (3, "each heartbeats after the other's first", "A1 0, A2 10, A1 30", ["h1:1", "h2:1"], 10),
    (4, "reconnect: the first channel falls silent", "A1 0, A2 10, A2 40, A2 70", [], None),
    (5, "both came at the same moment: not yet", "A1 0, A2 0", [], None),
    (6, "the same moment, then one more of one", "A1 0, A2 0, A1 30", [], None),
    (7, "the same moment, then one more of each", "A1 0, A2 0, A1 30, A2 30", ["h1:1", "h2:1"], 0),
    (8, "told in another order", "A1 30, A2 10, A1 0", ["h1:1", "h2:1"], 10),
    (9, "a reconnect beside another client", "A1 0, B3 5, A2 10, B3 35", [], None),
    (10, "three", "A1 0, A2 10, A3 20, A1 30, A2 40, A3 50", ["h1:1", "h2:1", "h3:1"], 10),
    (11, "two, and a third without data since it came", "A1 0, A2 10, A1 30, A2 40, A3 50", ["h1:1", "h2:1"], 10),
]


@pytest.mark.parametrize("row", TWINS, ids=[str(row[0]) for row in TWINS])
def test_twins_need_proof(row: tuple[int, str, str, list[str], int | None]) -> None:
    _, reason, beats, addrs, since = row
    ids = {"A": A, "B": B}
    membership = heard(*((ids[b[0]], f"h{b[1]}:1", float(b[3:])) for b in beats.split(", ")))
    expected = [] if since is None else [Twins("broker-a", A, tuple(addrs), at(since))]
    assert membership.twins(EXPIRED_MS) == expected, reason


def test_twins_may_be_seen_by_one_broker_only() -> None:
    membership = heard((A, "h1:1", 0), (A, "h2:1", 10), (A, "h1:1", 30))
    membership.register(Heartbeat(A, "h1:9", at(0), "broker-b"), subscribes("orders"))
    assert [twin.broker_name for twin in membership.twins(EXPIRED_MS)] == ["broker-a"]


def test_a_channel_taken_over_by_another_client_is_a_new_member() -> None:
    membership = heard((A, "h1:1", 0))
    change = membership.register(Heartbeat(B, "h1:1", at(30)), subscribes("orders"))
    assert change is not None
    assert (change.change, change.member.client_id) == (JOINED, B)
    assert [one.client_id for _, one in membership.members()] == [B]


@pytest.mark.parametrize(
    ("reported", "judged"),
    [
        ({}, True),
        ({"consume_type": "CONSUME_ACTIVELY"}, True),
        ({"client_rebalance": True}, True),
        ({"client_rebalance": False}, False),
        ({"consume_type": "CONSUME_POP"}, False),
        ({"message_model": "BROADCASTING"}, False),
    ],
)
def test_only_clients_that_rebalance_for_themselves_are_judged(reported: dict[str, object], judged: bool) -> None:
    assert (why_not_judged(A, subscribes("orders", **reported)) is None) == judged


def listed(seconds: range, *addrs: str, reported: bool = True) -> Membership:
    """One ClientId on these channels, listed by a broker that tells no heartbeats, in each round."""
    membership = Membership()
    for second in seconds:
        for addr in addrs:
            beat = Heartbeat(A, addr, at(second), is_listed_only=True if reported else None)
            membership.register(beat, subscribes("orders"))
    return membership


@pytest.mark.parametrize("reported", [True, False], ids=["told as listed", "told as heartbeats of the round's time"])
@pytest.mark.parametrize("interval", [5, 10, 20])
def test_channels_that_are_only_listed_are_twins_when_no_dead_one_would_be_listed_for_so_long(
    reported: bool, interval: int
) -> None:
    assert listed(range(0, 131, interval), "h1:1", "h2:1", reported=reported).twins(EXPIRED_MS) == []
    last = 130 + interval
    assert len(listed(range(0, last + 1, interval), "h1:1", "h2:1", reported=reported).twins(EXPIRED_MS)) == 1


def test_a_channel_that_is_only_listed_is_known_as_such_and_one_that_is_reported_is_not() -> None:
    membership = listed(range(0, 31, 10), "h1:1")
    membership.register(Heartbeat(B, "h2:1", at(30)), subscribes("orders"))
    assert newest_heartbeats(membership) == ({A: at(30), B: at(30)}, {A})


def test_a_broker_that_begins_to_describe_heartbeats_is_believed() -> None:
    membership = listed(range(0, 31, 10), "h1:1")
    membership.register(Heartbeat(A, "h1:1", at(45)), subscribes("orders"))
    assert newest_heartbeats(membership) == ({A: at(45)}, set())


def test_a_leave_older_than_the_newest_heartbeat_is_no_leave() -> None:
    membership = heard(("id@7", "h1:1", 30))
    assert membership.unregister("broker-a", "h1:1", at(10)) is None
    assert not membership.is_empty()
