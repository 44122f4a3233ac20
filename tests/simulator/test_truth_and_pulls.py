"""What the modelled cluster says of itself, held against the pulls it let out."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS, ROUTES
from streaming.simulator.consumer import PULL_THRESHOLD_FOR_QUEUE
from streaming.simulator.scenario import Scenario
from tests.lab.score.truth import Span
from tests.simulator.modelled import SECOND, START, Events, of
from tests.support.plays import Play, each_play

pytestmark = pytest.mark.replay

Queue = tuple[str, str, str, int]
"""Consumer group, topic, broker, queue_id."""

ON_THEIR_WAY_MS = 5
"""Pulls that were under way when a queue lost its consumer."""
LONG_POLL_MS = 22 * SECOND
"""A queue that is consumed is pulled every 15 s; a round of 3 s after a failure, and the network, come on top."""


def queue_of(span: Span) -> Queue:
    return span.consumer_group, span.mq.topic, span.mq.broker_name, span.mq.queue_id


def pulls_by_queue(events: Events) -> dict[Queue, list[dict[str, Any]]]:
    pulls: dict[Queue, list[dict[str, Any]]] = defaultdict(list)
    for pull in of(events, PULLS):
        pulls[pull["consumer_group"], pull["topic"], pull["broker_name"], pull["queue_id"]].append(pull)
    return pulls


def served(events: Events) -> dict[Queue, list[int]]:
    """Return the times at which each queue was pulled and the pull was not refused."""
    return {
        queue: [pull["event_time_ms"] for pull in pulls if pull.get("pull_status") != "NO_PERMISSION"]
        for queue, pulls in pulls_by_queue(events).items()
    }


def pulls_in(pulls: dict[Queue, list[dict[str, Any]]], span: Span, known_ms: int) -> list[dict[str, Any]]:
    """Return the pulls of the span's queue during it."""
    return [
        pull for pull in pulls[queue_of(span)] if span.start_ms <= pull["event_time_ms"] < (span.end_ms or known_ms)
    ]


def shares_out(scenario: Scenario, consumer_group: str) -> bool:
    """Whether clients share the group's queues out, so that there is a truth about them."""
    group = next(group for group in scenario.groups if group.consumer_group == consumer_group)
    subscribes = any(group.topics_of(consumer) for consumer in group.consumers)
    return (
        group.message_model == "CLUSTERING"
        and group.client_rebalance
        and subscribes
        and not group.lives_with_its_members
    )


@each_play
def test_a_starved_queue_is_not_pulled(play: Play) -> None:
    truth, times = play.simulation.truth, served(play.events)
    for one in truth:
        if one.cause == "consume_stopped":
            continue
        end_ms = one.end_ms or truth.known_ms
        of_queue = times.get(queue_of(one), [])
        first = bisect_left(of_queue, one.start_ms + ON_THEIR_WAY_MS)
        assert [time_ms for time_ms in of_queue[first:] if time_ms < end_ms] == [], one


@each_play
def test_what_is_pulled_and_not_consumed_is_not_committed(play: Play) -> None:
    truth, pulls = play.simulation.truth, pulls_by_queue(play.events)
    for one in truth:
        if one.cause == "consume_stopped":
            offsets = {pull.get("commit_offset") for pull in pulls_in(pulls, one, truth.known_ms)}
            assert len(offsets - {None, 0}) <= 1, one


def full_caches(events: Events) -> set[tuple[Queue, int]]:
    """Pulls of clients that will not pull again before they have consumed some of what they keep."""
    return {
        (queue, pull["event_time_ms"])
        for queue, pulls in pulls_by_queue(events).items()
        for pull in pulls
        if pull["pull_offset"] - pull.get("commit_offset", pull["pull_offset"]) >= PULL_THRESHOLD_FOR_QUEUE
    }


def silences(times: list[int], end_ms: int, longer_than_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the gaps between pulls that are longer than this, up to the end of the run."""
    for earlier, later in pairwise([*times, end_ms]):
        if later - earlier > longer_than_ms:
            yield earlier, later


def longest_outside(spans: list[Span], from_ms: int, to_ms: int, end_ms: int) -> int:
    """The longest stretch of an interval that no span covers; open spans last to `end_ms`."""
    longest_ms, covered_ms = 0, from_ms
    for one in sorted(spans, key=lambda one: one.start_ms):
        longest_ms = max(longest_ms, min(one.start_ms, to_ms) - covered_ms)
        covered_ms = max(covered_ms, one.end_ms or end_ms)
    return max(longest_ms, to_ms - covered_ms)


@each_play
def test_a_queue_that_is_not_starved_is_pulled_unless_its_broker_is_down(play: Play) -> None:
    truth, end_ms = play.simulation.truth, play.simulation.truth.known_ms
    down = {
        (broker_name, clock["event_time_ms"])
        for clock in of(play.events, CLOCKS)
        for broker_name in set(clock["brokers_asked"]) - set(clock["brokers_answered"])
    }
    refusing = {one.broker_name for one in play.scenario.brokers if not one.slave_read_enable}
    masterless = {
        broker["broker_name"]
        for route in of(play.events, ROUTES)
        for broker in route["brokers"]
        if 0 not in broker["broker_ids"] and broker["broker_name"] in refusing
    }
    emptied = {one.broker_name for one in play.scenario.happenings if one.action == "drop_topics"}
    full = full_caches(play.events)
    starved: dict[Queue, list[Span]] = defaultdict(list)
    for one in truth:
        starved[queue_of(one)].append(one)
    for queue, times in served(play.events).items():
        if not shares_out(play.scenario, queue[0]) or queue[2] in masterless | emptied:
            continue
        for from_ms, to_ms in silences(times, end_ms, LONG_POLL_MS):
            was_down = any(
                broker_name == queue[2] and from_ms - 5 * SECOND <= time_ms <= to_ms + 5 * SECOND
                for broker_name, time_ms in down
            )
            silent = ((from_ms - START) / SECOND, (to_ms - START) / SECOND)
            unexplained_ms = longest_outside(starved[queue], from_ms, to_ms, end_ms)
            assert was_down or (queue, from_ms) in full or unexplained_ms <= LONG_POLL_MS, (queue, silent)


@each_play
def test_a_queue_doubled_for_longer_than_two_long_polls_is_pulled_over_two_channels(play: Play) -> None:
    truth, pulls = play.simulation.truth, pulls_by_queue(play.events)
    for one in truth.doubled:
        if truth.lasted_ms(one) > 2 * LONG_POLL_MS:
            assert len({pull["client_addr"] for pull in pulls_in(pulls, one, truth.known_ms)}) > 1, one


@each_play
def test_queues_of_a_healthy_group_are_not_pulled_over_two_channels_in_turns(play: Play) -> None:
    """A queue goes from one channel to another and stays there: never A, B, A within a long poll, unless it settles."""
    if not play.scenario.healthy:
        return
    beats = of(play.events, HEARTBEATS)
    joined = {beat["client_addr"]: beat["event_time_ms"] for beat in reversed(beats)}
    changes_ms = [*joined.values(), *(beat["event_time_ms"] for beat in beats if beat.get("leaving"))]
    doubled = [(queue_of(one), one.start_ms, one.end_ms) for one in play.simulation.truth.doubled]

    def is_settling(queue: Queue, now_ms: int) -> bool:
        """Return whether a client joined or left within 40 s, or two held the queue within a long poll.

        Two hold a queue for a while where an old channel expires at one broker before the other, and where clients
        learn of more queues one after the other.
        """
        return any(0 <= now_ms - time_ms < 40 * SECOND for time_ms in changes_ms) or any(
            of_queue == queue and start_ms <= now_ms < (end_ms or now_ms) + LONG_POLL_MS
            for of_queue, start_ms, end_ms in doubled
        )

    for queue, pulls in pulls_by_queue(play.events).items():
        before, last = (0, ""), (0, "")
        for now_ms, addr in ((pull["event_time_ms"], pull["client_addr"]) for pull in pulls):
            is_back = addr == before[1] != last[1] and now_ms - before[0] < LONG_POLL_MS
            is_ours = is_back and shares_out(play.scenario, queue[0])
            assert not is_ours or is_settling(queue, now_ms), (queue, (now_ms - START) / SECOND)
            before, last = (before if addr == last[1] else last), (now_ms, addr)
