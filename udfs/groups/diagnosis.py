"""Why a queue starves, and when that is certain enough to page. The causes, strongest first:

1.  duplicate_client_id: the queue belongs to the slot of a second client with the ClientId of a first, and both
    channels have proven alive; or a broker's list has two or more extra entries, of one client or of several, and
    nobody has pulled the queue for settle_ms (apache/rocketmq issue 9830). Not: one reconnect, whose first channel
    falls silent.
2.  member_not_subscribed: the queue's owner counts as a member and does not subscribe the topic. Not: a member whose
    subscription changed less than settle_ms ago.
3.  consume_disabled: the broker refused the group's newest pull of it. Not: a pull older than max_evaluation_gap_ms.
4.  mixed_strategy: members allocate by different strategies or SDKs, and no member takes the queue.
5.  strategy_gap: the strategy's own options leave the queue out: a machine room not covered, a list it is not in.
6.  write_only_queue: producers write the queue, and the route gives it to no consumer.
7.  split_view: the queue's owner works from another broker's list of members.
8.  stale_route: the queue's owner works from the route as it was before the route changed.
9.  order_lock: the owner consumes in order and has not won this queue's lock: the owner pulls other queues, or has
    never pulled any of the topic and another orderly member, who lives, pulled this one last. Not: an owner that has
    stopped pulling every queue, which is 10 or 12.
10. frozen_client: a broker lists the owner, whose heartbeats are late. Not: a client whose heartbeats no broker tells.
11. consume_stopped: the queue's committed offset stands still while messages wait, whatever the owner pulls. Not: one
    slow message, which is given CONSUME_STOPPED_MS more. Of a queue without an owner (verdicts.py) no other cause
    is asked.
12. pull_stopped: the owner heartbeats, and has not pulled for PULL_MAX_IDLE_MS. Not: an owner whose cache was full at
    the newest pull, which need not pull until it has consumed some of it.
13. group_offline: the group has no member. Not: a group of one process's own whose process was replaced.

What is structural (1 to 9) is asked before what only looks like silence (10 to 12): a member that cannot pull is silent
too, and restarting the member would mend nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from udfs.alerts.kinds import OF_QUEUES
from udfs.alerts.rules import PULL_MAX_IDLE_MS, Rules
from udfs.groups.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, SPLIT_VIEW, STRATEGY_GAP, WRITE_ONLY_QUEUE
from udfs.groups.queue_state import CONSUME_STOPPED_MS, NOT_CONSUMED, UNOWNED, QueueState, last_served_ms

CONSUME_DISABLED, ORDER_LOCK = "consume_disabled", "order_lock"
FROZEN_CLIENT, PULL_STOPPED, GROUP_OFFLINE = "frozen_client", "pull_stopped", "group_offline"
CONSUME_STOPPED = "consume_stopped"

RECONNECTING_MS = 3 * PULL_MAX_IDLE_MS
"""An owner that has pulled nothing for so long is not excused by another new channel."""

CAUSES = OF_QUEUES
"""Strongest first: the first that applies names the queue's starvation."""

WARNED = (GROUP_OFFLINE, WRITE_ONLY_QUEUE)
"""Causes that are as often meant as not: a group that was shut down, a topic that is being scaled."""


def gravity(cause: str) -> tuple[bool, int]:
    """Return the sort key of a cause, gravest first: causes that only warn come after all others."""
    return cause in WARNED, CAUSES.index(cause)


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
    extra_entries      entries of a broker's list beyond a client's first, of all clients
    last_heartbeat_ms  each client's newest heartbeat
    listed_only        clients whose heartbeats no broker tells
    unheard            clients that were not asked, or did not answer, lately: what they pull is not known
    orderly            clients that must lock the topic's queues
    pulling            clients that pull some queue of the topic
    pulled_last        clients that were the last to pull some queue of the topic
    masterless         brokers that only slaves serve
    unsubscribed       members that do not subscribe the topic: brokers refuse it to all after their heartbeats
    is_ring_empty      the group allocates by CONSISTENT_HASH, and none of its members has pulled any queue
    joined_ms          broker → ClientId → when its newest channel there was opened
    cut_off            broker → clients that it should list and does not hear: they heartbeat elsewhere
    explained          clients whose pulls deviate from the plan, and why (plan.Inference.causes)
    """

    twin_ids: frozenset[str]
    last_heartbeat_ms: Mapping[str, int]
    now_ms: int = 0
    listed_only: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    unheard: frozenset[str] = frozenset()
    orderly: frozenset[str] = frozenset()
    pulling: frozenset[str] = frozenset()
    pulled_last: frozenset[str] = frozenset()
    masterless: frozenset[str] = frozenset()
    unsubscribed: tuple[str, ...] = ()
    is_ring_empty: bool = False
    joined_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cut_off: Mapping[str, frozenset[str]] = field(default_factory=dict)
    explained: Mapping[str, str] = field(default_factory=dict)
    extra_entries: int = 0


def diagnose(
    queue_state: QueueState, evidence: Evidence, watched_since_ms: int, rules: Rules, *, broker_name: str = ""
) -> Starvation | None:
    """Why this queue starves, or None when it does not. `certain_at_ms` None: not while things are as they are."""
    silent_since_ms = max(last_served_ms(queue_state), watched_since_ms)
    if queue_state.verdict == UNOWNED:
        slot_of, settled_ms = queue_state.share.slot_of, queue_state.share_since_ms + rules.settle_ms
        starved_since_ms = max(silent_since_ms, queue_state.share_since_ms)
        if queue_state.share.gap == DUPLICATE_CLIENT_ID:
            unproven = settled_ms if evidence.extra_entries > 1 else None
            certain = queue_state.since_ms if slot_of in evidence.twin_ids else unproven
            return Starvation(DUPLICATE_CLIENT_ID, starved_since_ms, slot_of, certain)
        if queue_state.share.gap is None and _is_refused(queue_state, evidence.now_ms, rules):
            return Starvation(CONSUME_DISABLED, silent_since_ms, None, queue_state.since_ms)
        cause = queue_state.share.gap or GROUP_OFFLINE
        return Starvation(cause, starved_since_ms, slot_of, settled_ms)
    if queue_state.verdict == NOT_CONSUMED and queue_state.reason is not None and queue_state.consumption is not None:
        since_ms = max(queue_state.consumption.since_ms, queue_state.share_since_ms)
        return Starvation(CONSUME_STOPPED, since_ms, None, queue_state.since_ms)
    if queue_state.verdict == NOT_CONSUMED:
        joined_ms = evidence.joined_ms.get(broker_name, {}).get(queue_state.share.owner or "", 0)
        # an owner whose channel has just opened pulls soon; one that reconnects all the time is reported all the same
        given_ms = max(queue_state.share_since_ms, min(joined_ms, silent_since_ms + RECONNECTING_MS))
        silence = _diagnose_silence(queue_state, evidence, silent_since_ms, given_ms, rules, broker_name)
        return replace(silence, given_ms=given_ms)
    return None


def _diagnose_silence(
    queue_state: QueueState, evidence: Evidence, silent_since_ms: int, given_ms: int, rules: Rules, broker_name: str
) -> Starvation:
    """Causes 3 and 7 to 12: the queue has an owner, and the owner does not pull."""
    owner = queue_state.share.owner or ""
    if _is_refused(queue_state, evidence.now_ms, rules):
        return Starvation(CONSUME_DISABLED, silent_since_ms, owner, queue_state.since_ms)
    stopped = _consumption_stopped(queue_state, evidence, rules)
    if stopped is not None and any(puller.client_id == owner for puller in queue_state.pullers.values()):
        return stopped  # it pulls, so it is not kept from it
    given_ms = max(given_ms, silent_since_ms)
    if owner not in evidence.late and (known := _why_alive(owner, queue_state.last_client_id, evidence, broker_name)):
        cause, client_id = known
        is_shown = owner in evidence.explained or cause == SPLIT_VIEW
        certain_at_ms = queue_state.since_ms if is_shown else given_ms + rules.settle_ms
        return Starvation(cause, silent_since_ms, client_id, certain_at_ms)
    late_at_ms = evidence.last_heartbeat_ms.get(owner, 0) + rules.heartbeat_late_ms
    stopped_at_ms = given_ms + PULL_MAX_IDLE_MS
    if owner not in evidence.late and stopped is not None:
        return stopped
    is_held_back = queue_state.consumption is not None and queue_state.consumption.is_cache_full
    is_unknown = owner in evidence.late and owner in evidence.unheard  # its newest pull may have been missed
    is_late_first = late_at_ms <= stopped_at_ms or is_held_back or is_unknown  # a full cache need not be pulled
    if is_late_first and owner not in evidence.listed_only:
        return Starvation(FROZEN_CLIENT, silent_since_ms, owner, max(late_at_ms, queue_state.since_ms))
    return Starvation(PULL_STOPPED, silent_since_ms, owner, stopped_at_ms)


def _consumption_stopped(queue_state: QueueState, evidence: Evidence, rules: Rules) -> Starvation | None:
    """The queue's commit stands still while messages wait, and has since its owner was given it.

    Not: one slow message, for CONSUME_STOPPED_MS longer; an owner that waits for what the one before it left behind; an
    owner that was heard and whose pulls ended when the commits did, with room in its cache.
    """
    known, last_pull_ms, owner = queue_state.consumption, queue_state.last_pull_ms, queue_state.share.owner
    if known is None:
        return None
    is_heard = last_pull_ms is not None and owner not in evidence.unheard and not known.is_cache_full
    if is_heard and abs((last_pull_ms or 0) - known.since_ms) <= rules.pull_silence_ms:
        return None
    stands_ms = min(known.stands_ms(evidence.now_ms), evidence.now_ms - queue_state.share_since_ms)
    if stands_ms < rules.consume_silence_ms:
        return None
    certain_ms = rules.consume_silence_ms + CONSUME_STOPPED_MS
    certain_at_ms = max(known.since_ms, queue_state.share_since_ms) + certain_ms
    is_certain = stands_ms >= certain_ms
    return Starvation(CONSUME_STOPPED, known.since_ms, owner, certain_at_ms if is_certain else None)


def _why_alive(
    owner: str, last_client_id: str | None, evidence: Evidence, broker_name: str
) -> tuple[str, str | None] | None:
    """(cause, whom it is about) where an owner whose heartbeats come is kept from pulling.

    `last_client_id` is who pulled the queue last.
    """
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
    is_alive = last_client_id in evidence.orderly and last_client_id not in evidence.late
    is_kept = is_alive and last_client_id != owner and owner not in evidence.pulled_last  # the last puller has the lock
    if owner in evidence.orderly and (owner in evidence.pulling or is_kept or broker_name in evidence.masterless):
        return ORDER_LOCK, owner  # free 60 s after its holder is gone, asked for every 20 s: 80 s too
    return None


def _is_refused(queue_state: QueueState, now_ms: int, rules: Rules) -> bool:
    """The broker refused the newest pull. Not: one of long ago, for who is refused asks again every 3 s."""
    refused_ms = queue_state.anomaly.refused_ms if queue_state.anomaly else None
    return refused_ms is not None and refused_ms > max(
        queue_state.last_pull_ms or 0, now_ms - rules.max_evaluation_gap_ms
    )
