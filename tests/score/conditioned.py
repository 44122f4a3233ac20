"""What is true of a run under conditions, and what of it can be known: later, hidden, or true because of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streaming.simulator import Conditions, Watched
from tests.score.truths import SLACK_MS, Fact, facts_of

SLOW_MS = 30_000
"""A collector whose rounds are further apart is told as slow, and kinds that need turns are hidden."""

SKEW_MS = 10_000
"""A clock further off is told."""

SKEW_MARGIN_MS = 10_000
"""Beyond a tick's interval: what a source may be behind by without being told."""

QUARANTINED_MS = 60_000
"""A clock event so far ahead of Kafka moves nothing."""

EXPIRY_MS = 140_000
"""A channel that is only listed proves nothing before a dead one would have expired: 120 s, a scan, a round."""

CONSUME_STOPPED_MS = 240_000
"""What only commits can tell: 180 s without one, and 60 s to be certain."""

MOST_NO_DATA, SURELY_NO_DATA = 0.25, 0.75
"""From so many missed rounds a broker may be told as one without data; from so many it must be."""

HELD = {"split_view", "member_not_subscribed", "stale_route", "mixed_strategy", "pull_stopped"}
"""Causes whose queues a client may go on asking for in vain: to a collector that looks as if they were pulled."""

UNDER_A_BROKER = ("starved_queue", "stalled_queue")
"""To agents a broker that is dead is one that its clients do not reach: what nobody pulls there is told, as its
effect. Whether it starves, or is gone for its producers too, no consumer shows.
"""

BY_CHANNELS = {"duplicate_client_id", "split_view"}


def facts_under(watched: Watched) -> Iterator[Fact]:
    """Every fact, `required` as the conditions let it be known."""
    conditions = watched.conditions
    slack_ms = SLACK_MS if conditions == Conditions() else _patience_ms(watched)
    facts = [
        replace(
            fact,
            required=fact.required and not _is_hidden(fact, watched) and not _is_short(fact, watched),
            also=fact.also | _also(fact, conditions),
        )
        for fact in facts_of(watched.simulation, slack_ms)
    ]
    for fact in facts:
        is_known = conditions == Conditions() or _is_of_queues(fact, facts)
        yield replace(fact, required=fact.required and is_known)
        if conditions.view == "agents" and fact.kind in ("broker_no_data", "broker_without_master"):
            for kind in UNDER_A_BROKER:
                yield replace(fact, kind=kind, cause=None, required=False)
    yield from _made_by(watched)


def _is_of_queues(fact: Fact, facts: Sequence[Fact]) -> bool:
    """What a file expects of queues, within a time that may be generous, must be told where it must of one queue."""
    if fact.kind not in ("starved_queue", "double_consumed_queue") or fact.queue is not None:
        return True
    labels = (fact.kind, fact.consumer_group)
    return any(
        one.required and one.queue and (one.kind, one.consumer_group) == labels and fact.cause in (None, one.cause)
        for one in facts
    )


def _also(fact: Fact, conditions: Conditions) -> frozenset[str]:
    """To a collector every starved queue is one whose commits stand still."""
    is_by_commits = conditions.view == "collector" and fact.kind == "starved_queue"
    return frozenset({"consume_stopped"}) if is_by_commits else frozenset()


def _patience_ms(watched: Watched) -> int:
    """How much later than their bound facts may be told: two rounds, and what is lost on the way."""
    conditions = watched.conditions
    interval_ms = watched.simulation.scenario.clock_interval_ms
    rounds = 2 / (1 - min(conditions.missed_rounds, 0.9))
    skew_ms = min(abs(conditions.skew.ahead_ms), SKEW_MS + interval_ms) if conditions.skew else 0
    peace_ms = 180_000 if conditions.lost_answers else 0
    return SLACK_MS + int(rounds * interval_ms) + conditions.lag_ms + skew_ms + peace_ms


def _is_short(fact: Fact, watched: Watched) -> bool:
    """It ends, or the run does, before anybody can know of it under these conditions."""
    conditions = watched.conditions
    if conditions == Conditions():
        return False
    bound_ms = fact.bound_ms
    if conditions.is_plain and fact.kind == "starved_queue" and fact.cause in HELD:
        bound_ms = CONSUME_STOPPED_MS
    if conditions.listed_only and (fact.kind in BY_CHANNELS or fact.cause in BY_CHANNELS):
        bound_ms += EXPIRY_MS
    end_ms = watched.simulation.now_ms if fact.end_ms is None else fact.end_ms
    return end_ms - fact.start_ms <= bound_ms + _patience_ms(watched)


def _is_hidden(fact: Fact, watched: Watched) -> bool:
    """Nobody can know it under these conditions; whoever says it all the same must be right."""
    conditions = watched.conditions
    is_blind = conditions.ahead_ms("collector") > QUARANTINED_MS
    is_slow = watched.simulation.scenario.clock_interval_ms > SLOW_MS
    return (
        is_blind
        or (is_slow and fact.kind == "double_consumed_queue")
        or (conditions.view == "agents" and fact.kind in ("broker_no_data", "cluster_no_data"))
        or (conditions.view == "collector" and _is_hidden_from_rounds(fact, watched))
    )


def _is_hidden_from_rounds(fact: Fact, watched: Watched) -> bool:
    conditions = watched.conditions
    is_lost = conditions.missed_rounds >= SURELY_NO_DATA and fact.broker_name in (None, watched.suspects.broker_name)
    is_unreported = bool(conditions.listed_only) and "frozen_client" in (fact.kind, fact.cause)
    is_of_twins = fact.kind == "double_consumed_queue" and fact.cause in (
        None,
        "duplicate_client_id",
    )  # infos have no address
    is_mute = _has_mute(fact, watched) and "group_offline" not in (fact.kind, fact.cause)
    return is_lost or is_unreported or is_of_twins or is_mute


def _has_mute(fact: Fact, watched: Watched) -> bool:
    """A member of its group answers no question."""
    groups = watched.simulation.scenario.groups
    members = {one.client_id for of in groups if of.consumer_group == fact.consumer_group for one in of.consumers}
    return bool(members & watched.suspects.mute)


def _made_by(watched: Watched) -> Iterator[Fact]:
    """What the conditions themselves make true."""
    conditions, simulation = watched.conditions, watched.simulation
    ahead_ms = conditions.skew.ahead_ms if conditions.skew else 0
    if abs(ahead_ms) >= SKEW_MS or conditions.lag_ms >= SKEW_MS:
        yield _fact(
            "clock_skew", watched, required=_must_describe_skew(conditions, simulation.scenario.clock_interval_ms)
        )
    is_refused = conditions.ahead_ms("collector") > QUARANTINED_MS
    if is_refused:
        yield _fact("cluster_no_data", watched, required=False)  # its times are refused: nobody keeps the cluster's
    if simulation.scenario.clock_interval_ms >= SLOW_MS:
        is_slow = simulation.scenario.clock_interval_ms > SLOW_MS
        yield _fact("slow_collector", watched, required=is_slow and not is_refused)
    is_long = simulation.scenario.clock_interval_ms > SLOW_MS  # two lost rounds are minutes
    if conditions.missed_rounds >= MOST_NO_DATA or (conditions.missed_rounds and is_long):
        yield _fact(
            "broker_no_data",
            watched,
            broker_name=watched.suspects.broker_name,
            required=conditions.missed_rounds >= SURELY_NO_DATA and not is_refused,
        )


def _must_describe_skew(conditions: Conditions, interval_ms: int) -> bool:
    """A broker's or a collector's clock that no lag explains. Of a client nothing may be said; ours needs no other."""
    if conditions.skew is None or conditions.lag_ms:
        return False
    role, ahead_ms = conditions.skew.role, conditions.skew.ahead_ms
    if role == "broker" and conditions.view == "collector":
        return abs(ahead_ms) > SKEW_MS and not conditions.is_plain
    return role in ("broker", "collector") and abs(ahead_ms) > max(SKEW_MS, interval_ms + SKEW_MARGIN_MS)


def _fact(kind: str, watched: Watched, *, required: bool, broker_name: str | None = None) -> Fact:
    start_ms = watched.start_ms
    is_long = watched.simulation.now_ms - start_ms > 300_000 + 6 * watched.simulation.scenario.clock_interval_ms
    return Fact(kind, None, None, None, broker_name, None, None, start_ms, None, required and is_long)
