"""Views of a group: channels that come, stay and go, and what makes two of them twins."""

import pytest

from tests.udfs.groups.facts import ConsumerData, Heartbeat, at, subscribes
from udfs.rocketmq.heartbeat import why_not_judged
from udfs.rocketmq.membership import EXPIRED, Membership, Twins, newest_heartbeats

EXPIRED_MS = 120_000
NOBODY: frozenset[str] = frozenset()


def heard(*beats: tuple[str, str, float], broker_name: str = "broker-a") -> Membership:
    """A view after heartbeats of (client_id, client_addr, second)."""
    membership = Membership()
    for client_id, client_addr, second in beats:
        membership.register(Heartbeat(client_id, client_addr, at(second), broker_name), subscribes("orders"))
    return membership


# Why; heartbeats of client A or B on channel 1 or 2 at a second, at broker-b if "b" follows, and "-" for a channel that
# leaves broker-a; the changes; the members with their first and last heartbeat, broker-a's first.
VIEWS = [
    ("a first heartbeat joins, later ones refresh", "A1 0, A1 30", "JOINED A 0", "A1 0-30"),
    ("an older one lengthens the span", "A1 30, A1 0", "JOINED A 30", "A1 0-30"),
    ("brokers' views are never merged", "A1 0, A2 0 b, A1 30, A2 30 b", "JOINED A 0, JOINED A 0", "A1 0-30, A2 0-30"),
    ("a client that unregisters leaves at once", "A1 0, -1 10", "JOINED A 0, LEFT A 10", ""),
    ("one broker's view alone", "A1 0, A1 0 b, -1 10", "JOINED A 0, JOINED A 0, LEFT A 10", "A1 0-0"),
    ("a heartbeat of before the leave stays out", "A1 0, -1 10, A1 10", "JOINED A 0, LEFT A 10", ""),
    ("a later one joins again", "A1 0, -1 10, A1 11", "JOINED A 0, LEFT A 10, JOINED A 11", "A1 11-11"),
    ("a leave that comes before its heartbeats", "-1 10, A1 0", "", ""),
    ("one older than the newest heartbeat is none", "A1 30, -1 10", "JOINED A 30", "A1 30-30"),
    ("another client's channel is a new member", "A1 0, B1 30", "JOINED A 0, JOINED B 30", "B1 30-30"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "steps", "changes", "members"), VIEWS, ids=[row[0] for row in VIEWS])
def test_a_brokers_view(reason: str, steps: str, changes: str, members: str) -> None:
    membership, said = Membership(), []
    for step in steps.split(", "):
        (client_id, addr), second, *other = step.split()
        broker_name = "broker-b" if other else "broker-a"
        if client_id == "-":
            change = membership.unregister(broker_name, addr, at(float(second)))
        else:
            change = membership.register(
                Heartbeat(client_id, addr, at(float(second)), broker_name), subscribes("orders")
            )
        said += [f"{change.change} {change.member.client_id} {seconds(change.at_ms)}"] if change else []
    assert ", ".join(said) == changes, reason
    shown = [
        f"{one.client_id}{one.client_addr} {seconds(one.first_heartbeat_ms)}-{seconds(one.last_heartbeat_ms)}"
        for _, one in membership.members()
    ]
    assert ", ".join(shown) == members, reason
    assert membership.is_empty() == (not members)
    assert membership.twins(EXPIRED_MS) == []


def seconds(time_ms: int) -> int:
    return (time_ms - at(0)) // 1_000


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
