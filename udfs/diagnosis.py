"""Why a queue starves, and whether that is certain enough to say: causes and their holds.

duplicate_client_id    its slot belongs to a twin: said once both twins are proven alive
member_not_subscribed  its slot belongs to a member that does not subscribe the topic
consume_disabled       the broker refuses the group's pulls
mixed_strategy         the members allocate by different strategies or SDKs, and none takes it
strategy_gap           the strategy's own options leave it out: a room not covered, a list it is not in
write_only_queue       producers write it, the route gives it to no consumer
split_view             its owner works from another broker's list of members
stale_route            its owner works from the route as it was before it changed
order_lock             its owner consumes in order and has not won its lock
frozen_client          its owner is listed, but its heartbeats are late
consume_stopped        its committed offset stands still while messages come, whatever its owner pulls
pull_stopped           its owner heartbeats, and has not pulled for longer than pull-expired takes (120 s)
group_offline          the group has no member
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from udfs.explanation import SPLIT_VIEW, STALE_ROUTE
from udfs.model import queue_order
from udfs.ownership import SILENT, STARVED, QueueWatch
from udfs.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY, STRATEGY_GAP, WRITE_ONLY_QUEUE
from udfs.rules import PULL_MAX_IDLE_MS, Rules

CONSUME_DISABLED, ORDER_LOCK = "consume_disabled", "order_lock"
FROZEN_CLIENT, PULL_STOPPED, GROUP_OFFLINE = "frozen_client", "pull_stopped", "group_offline"
CONSUME_STOPPED = "consume_stopped"

CONSUME_STOPPED_MS = 60_000
"""A listener that takes as long again as consume_silence_ms is given is as good as none."""

RECONNECTING_MS = 3 * PULL_MAX_IDLE_MS
"""An owner that has pulled nothing for so long is not excused by another new channel."""

CAUSES = (
    DUPLICATE_CLIENT_ID,
    MEMBER_NOT_SUBSCRIBED,
    CONSUME_DISABLED,
    MIXED_STRATEGY,
    STRATEGY_GAP,
    WRITE_ONLY_QUEUE,
    SPLIT_VIEW,
    STALE_ROUTE,
    ORDER_LOCK,
    FROZEN_CLIENT,
    CONSUME_STOPPED,
    PULL_STOPPED,
    GROUP_OFFLINE,
)
"""Strongest first: the first that applies names the incident."""


@dataclass(frozen=True)
class Starvation:
    """One queue that nobody consumes: why, since when, whom it is about, and from when on that is certain.

    `given_ms` is since when its owner could have pulled it.
    """

    cause: str
    since_ms: int
    client_id: str | None
    certain_at_ms: int | None
    given_ms: int = 0


@dataclass(frozen=True)
class Evidence:
    """What the causes are judged by.

    twin_ids           proven twins
    now_ms             the look
    last_heartbeat_ms  each client's newest heartbeat
    listed_only        clients whose heartbeats no broker tells
    late               clients whose heartbeats are late now
    orderly            clients that must lock the topic's queues
    pulling            clients that pull some queue of the topic
    masterless         brokers that only slaves serve
    unsubscribed       members that do not subscribe the topic: brokers refuse it to all after their heartbeats
    is_ring_empty      the group allocates by CONSISTENT_HASH, and none of its members has pulled any queue
    joined_ms          broker → ClientId → when its newest channel there was opened
    cut_off            broker → clients that it should list and does not hear: they heartbeat elsewhere
    explained          clients whose pulls deviate from the plan, and why (explanation.Explanation.causes)
    """

    twin_ids: frozenset[str]
    last_heartbeat_ms: Mapping[str, int]
    now_ms: int = 0
    listed_only: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    orderly: frozenset[str] = frozenset()
    pulling: frozenset[str] = frozenset()
    masterless: frozenset[str] = frozenset()
    unsubscribed: tuple[str, ...] = ()
    is_ring_empty: bool = False
    joined_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cut_off: Mapping[str, frozenset[str]] = field(default_factory=dict)
    explained: Mapping[str, str] = field(default_factory=dict)


def diagnose(
    watch: QueueWatch, evidence: Evidence, watched_since_ms: int, rules: Rules, *, broker_name: str = ""
) -> Starvation | None:
    """Why this queue starves, or None when it does not. `certain_at_ms` None: not while things are as they are."""
    consumed_ms = watch.consumption.consumed_ms if watch.consumption else None
    silent_since_ms = max(watch.last_pull_ms or 0, consumed_ms or 0, watched_since_ms)
    if watch.verdict == STARVED:
        slot_of, settled_ms = watch.share.slot_of, watch.share_since_ms + rules.settle_ms
        starved_since_ms = max(silent_since_ms, watch.share_since_ms)
        if watch.share.gap == DUPLICATE_CLIENT_ID:
            certain = watch.since_ms if slot_of in evidence.twin_ids else None
            return Starvation(DUPLICATE_CLIENT_ID, starved_since_ms, slot_of, certain)
        if watch.share.gap is None and _is_refused(watch, evidence.now_ms, rules):
            return Starvation(CONSUME_DISABLED, silent_since_ms, None, watch.since_ms)
        cause = watch.share.gap or GROUP_OFFLINE
        return Starvation(cause, starved_since_ms, slot_of, settled_ms)
    if watch.verdict == SILENT:
        given_ms = _given_ms(watch, evidence, silent_since_ms, broker_name)
        silence = _diagnose_silence(watch, evidence, silent_since_ms, given_ms, rules, broker_name)
        return replace(silence, given_ms=given_ms)
    return None


def _given_ms(watch: QueueWatch, evidence: Evidence, silent_since_ms: int, broker_name: str) -> int:
    """Since when its owner has had the queue, and a channel to its broker: one that has just come back pulls soon.

    One that comes back all the time and never pulls is told all the same.
    """
    joined_ms = evidence.joined_ms.get(broker_name, {}).get(watch.share.owner or "", 0)
    return max(watch.share_since_ms, min(joined_ms, silent_since_ms + RECONNECTING_MS))


def _diagnose_silence(
    watch: QueueWatch, evidence: Evidence, silent_since_ms: int, given_ms: int, rules: Rules, broker_name: str
) -> Starvation:
    """Somebody is meant to pull the queue. What is structural is asked before what only looks like silence."""
    owner = watch.share.owner or ""
    if _is_refused(watch, evidence.now_ms, rules):
        return Starvation(CONSUME_DISABLED, silent_since_ms, owner, watch.since_ms)
    stopped = _consumption_stopped(watch, evidence, rules)
    if stopped is not None and any(puller.client_id == owner for puller in watch.pullers.values()):
        return stopped  # it pulls, so it is not kept from it
    given_ms = max(given_ms, silent_since_ms)
    if owner not in evidence.late and (known := _why_alive(owner, evidence, broker_name)):
        cause, client_id = known
        is_shown = owner in evidence.explained or cause == SPLIT_VIEW
        certain_at_ms = watch.since_ms if is_shown else given_ms + rules.settle_ms
        return Starvation(cause, silent_since_ms, client_id, certain_at_ms)
    late_at_ms = evidence.last_heartbeat_ms.get(owner, 0) + rules.heartbeat_late_ms
    stopped_at_ms = given_ms + PULL_MAX_IDLE_MS
    if owner not in evidence.late and stopped is not None:
        return stopped
    is_held_back = watch.consumption is not None and watch.consumption.is_cache_full
    is_late_first = late_at_ms <= stopped_at_ms or is_held_back  # by a full cache: it need not have pulled till then
    if is_late_first and owner not in evidence.listed_only:
        return Starvation(FROZEN_CLIENT, silent_since_ms, owner, max(late_at_ms, watch.since_ms))
    return Starvation(PULL_STOPPED, silent_since_ms, owner, stopped_at_ms)


def _consumption_stopped(watch: QueueWatch, evidence: Evidence, rules: Rules) -> Starvation | None:
    """The queue's commit stands still while messages come, and has since its owner was given it.

    Not: one slow message, for CONSUME_STOPPED_MS longer; an owner that waits for what the one before it left behind.
    """
    known = watch.consumption
    if known is None:
        return None
    stands_ms = min(known.stands_ms(evidence.now_ms), evidence.now_ms - watch.share_since_ms)
    if stands_ms < rules.consume_silence_ms:
        return None
    certain_ms = rules.consume_silence_ms + CONSUME_STOPPED_MS
    certain_at_ms = max(known.since_ms, watch.share_since_ms) + certain_ms
    is_certain = stands_ms >= certain_ms
    return Starvation(CONSUME_STOPPED, known.since_ms, watch.share.owner, certain_at_ms if is_certain else None)


def _why_alive(owner: str, evidence: Evidence, broker_name: str) -> tuple[str, str | None] | None:
    """(cause, whom it is about) where an owner whose heartbeats come is kept from pulling."""
    explained = evidence.explained.get(owner)
    if owner in evidence.cut_off.get(broker_name, ()):
        return SPLIT_VIEW, owner
    if explained:
        twin = min(evidence.twin_ids, default=owner)
        return explained, twin if explained == DUPLICATE_CLIENT_ID else owner
    if evidence.is_ring_empty:
        return STRATEGY_GAP, None
    if evidence.unsubscribed:
        return MEMBER_NOT_SUBSCRIBED, evidence.unsubscribed[0]
    if owner in evidence.orderly and (owner in evidence.pulling or broker_name in evidence.masterless):
        return ORDER_LOCK, owner  # free 60 s after its holder is gone, asked for every 20 s: 80 s too
    return None


def _is_refused(watch: QueueWatch, now_ms: int, rules: Rules) -> bool:
    """The broker refused the newest pull. Not: one of long ago, for who is refused asks again every 3 s."""
    refused_ms = watch.oddity.refused_ms if watch.oddity else None
    return refused_ms is not None and refused_ms > max(watch.last_pull_ms or 0, now_ms - rules.blind_ms)


@dataclass(frozen=True)
class StarvedTopic:
    """The queues of one topic that starve, as one finding."""

    cause: str
    client_id: str | None
    since_ms: int
    queues: tuple[str, ...]
    causes: dict[str, Starvation]
    is_ready: bool


def gather(
    starvations: Mapping[str, Starvation],
    coming: frozenset[str],
    still_silent: frozenset[str],
    known_cause: str | None,
    now_ms: int,
    rules: Rules,
) -> StarvedTopic | None:
    """One finding for a topic's starved queues, or None when none starves. It is not ready before one is certain.

    `coming` are queues about to starve for a reason already known: they are waited for, at most `settle_ms`, so
    that the first page lists all. `still_silent` are queues of the open incident that nobody pulled since,
    `known_cause` its cause; None when there is no open incident.
    """
    if known_cause is None and not any(_is_certain(one, now_ms) for one in starvations.values()):
        return _uncertain(starvations)
    certain = {queue: starvation for queue, starvation in starvations.items() if _is_certain(starvation, now_ms)}
    if not certain:
        if not still_silent or known_cause is None:
            return None
        return StarvedTopic(known_cause, None, now_ms, tuple(sorted(still_silent, key=queue_order)), {}, False)
    coming = coming | {queue for queue, s in starvations.items() if s.certain_at_ms is not None} - certain.keys()
    first_ms = min(starvation.certain_at_ms or 0 for starvation in certain.values())
    cause = min((starvation.cause for starvation in certain.values()), key=CAUSES.index)
    blamed = sorted({s.client_id for s in certain.values() if s.cause == cause and s.client_id})
    return StarvedTopic(
        cause=cause,
        client_id=blamed[0] if blamed else None,
        since_ms=min(starvation.since_ms for starvation in certain.values()),
        queues=tuple(sorted(certain.keys() | still_silent, key=queue_order)),
        causes=certain,
        is_ready=not coming or now_ms >= first_ms + rules.settle_ms,
    )


def _is_certain(starvation: Starvation, now_ms: int) -> bool:
    return starvation.certain_at_ms is not None and starvation.certain_at_ms <= now_ms


def _uncertain(starvations: Mapping[str, Starvation]) -> StarvedTopic | None:
    """The first sign: queues that nobody pulls, by the likeliest cause."""
    if not starvations:
        return None
    likeliest = min(starvations.values(), key=lambda starvation: CAUSES.index(starvation.cause))
    return StarvedTopic(
        likeliest.cause,
        likeliest.client_id,
        min(starvation.since_ms for starvation in starvations.values()),
        tuple(sorted(starvations, key=queue_order)),
        dict(starvations),
        is_ready=False,
    )
