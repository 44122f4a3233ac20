"""A client sets the time of a pull before it sends one: a pull whose waiting messages did not come is none."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from schemas.events import PULLS
from streaming.collector.reading import Reading
from streaming.collector.rocketmq_answers import OffsetWrapper, parse_running_info
from tests.collector.rounds import (
    BROKER_A,
    GROUP,
    NOW,
    ORDERS,
    SOLO,
    TOPIC,
    TWIN,
    TWINS,
    events_of,
    process_queue,
    reading,
    running,
    view,
)

STEP = 10_000


class Heard(NamedTuple):
    """A queue in one round: the client's own offset and cache, the queue's end, the group's commit, and the offset
    that the broker was asked for, which only 5.x tells.
    """

    own: int
    cached: int
    end: int
    commit: int = 10
    asked: int = -1


def at(number: int, heard: Heard, *, is_push: bool = True, tags: str = "*", **fields: Any) -> Reading:
    """A round in which the client says, as ever, that it has pulled since the one before."""
    queue = process_queue(0, NOW + number * STEP, commit_offset=heard.own, cached_msg_count=heard.cached)
    offsets = {(GROUP, (TOPIC, "broker-a", 0)): OffsetWrapper(heard.end, heard.commit, heard.asked)}
    info = replace(running(queue), is_push=is_push, subscriptions=(replace(ORDERS, sub_string=tags),))
    broker = fields.pop("broker", view(BROKER_A, SOLO))
    members = {(GROUP, each.client_id): (info,) for group in broker.groups for each in group.connections}
    return reading(broker, **{"running": members, "offsets": offsets, **fields})


def pullers(*readings: Reading) -> list[str | None]:
    """Return the puller of the queue in each round; None: no pull."""
    return [client_id for client_id, _ in found_in(*readings)]


def found_in(*readings: Reading) -> list[tuple[str | None, str | None]]:
    """Return the puller and the status of its pull, round by round."""
    rounds = ([each for each in pulls if each["client_id"]] for pulls in events_of(PULLS, *readings, step_ms=STEP))
    return [(pulls[0]["client_id"], pulls[0]["pull_status"]) if pulls else (None, None) for pulls in rounds]


ME = SOLO[0]
STUCK = Heard(own=10, cached=0, end=20)
REFUSING = replace(view(BROKER_A, SOLO), refused=frozenset([GROUP]))


@pytest.mark.parametrize(
    ("reason", "rounds", "fields", "found"),
    [
        (
            "a pull that brings nothing of what waits is none",
            [STUCK, STUCK, STUCK, Heard(10, 5, 30), Heard(15, 0, 30), Heard(15, 0, 30)],
            {},
            [ME, None, None, ME, ME, None],
        ),
        (
            "another member that consumes the queue does not make a suspended one a puller",
            [Heard(10, 0, 20 + number, commit=12 + number) for number in range(4)],
            {},
            [ME, None, None, None],
        ),
        ("no message waits", [Heard(10, 0, 10)] * 3, {}, [ME] * 3),
        ("a slow listener, or one that hangs", [Heard(10, 3, 20)] * 3, {}, [ME] * 3),
        ("no member committed yet: it may begin at the end", [Heard(-1, 0, 20, commit=-1)] * 3, {}, [ME] * 3),
        ("a new message may be on its way", [Heard(10, 0, 10), Heard(10, 0, 11), Heard(11, 0, 12)], {}, [ME] * 3),
        ("a pull consumer commits when it likes", [STUCK] * 3, {"is_push": False}, [ME] * 3),
        ("refused pulls are reported as refused", [STUCK] * 3, {"broker": REFUSING}, [ME] * 3),
        ("each of two twins has its own cache", [STUCK] * 3, {"broker": view(BROKER_A, *TWINS)}, [TWIN] * 3),
    ],
)
def test_a_pull_counts_unless_waiting_messages_did_not_come(
    reason: str, rounds: list[Heard], fields: dict[str, Any], found: list[str | None]
) -> None:
    assert pullers(*(at(number, answers, **fields) for number, answers in enumerate(rounds))) == found, reason


def test_what_waited_waits_on_while_the_broker_does_not_tell_its_offsets() -> None:
    heard = Heard(own=10, cached=0, end=20)
    assert pullers(at(0, heard), at(1, heard, offsets={}), at(2, heard)) == [ME, None, None]


def test_messages_that_a_client_drops_for_their_tags_are_no_fault_of_its_queue() -> None:
    """The broker filters by the newest member's tags, and this one's own offset stands: found with 4.9.8."""
    rounds = [Heard(own=10, cached=0, end=20 + 10 * number, asked=18 + 10 * number) for number in range(3)]
    rounds.append(rounds[-1]._replace(asked=rounds[-1].end))  # it has them all, and waits for more
    rounds.append(rounds[-1])
    assert statuses(*rounds) == [(ME, None), *[(ME, "NO_MATCHED_MSG")] * 4]


def test_a_client_with_tags_that_asks_for_nothing_more_pulls_in_vain() -> None:
    assert statuses(*[Heard(own=10, cached=0, end=20, asked=15)] * 3) == [(ME, None), (None, None), (None, None)]


def test_a_broker_that_does_not_tell_what_it_was_asked_for_proves_nothing_of_tags() -> None:
    assert statuses(*[Heard(own=10, cached=0, end=20)] * 3) == [(ME, None)] * 3


def statuses(*rounds: Heard) -> list[tuple[str | None, str | None]]:
    """The same of a client that subscribes some tags."""
    return found_in(*(at(number, answers, tags="paid") for number, answers in enumerate(rounds)))


@pytest.mark.parametrize(("kind", "is_push"), [("CONSUME_PASSIVELY", True), ("CONSUME_ACTIVELY", False), (None, False)])
def test_a_push_consumer_says_that_it_is_one(kind: str | None, is_push: bool) -> None:
    assert parse_running_info({"properties": {"PROP_CONSUME_TYPE": kind} if kind else {}}).is_push == is_push
