"""Facts of a run under conditions: later, impossible to know, or true because of the conditions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streaming.simulator.conditions import Conditions
from tests.lab.score.bounds import BOUNDS_MS, BOUNDS_OF_KIND_MS
from tests.lab.score.fact import ALSO, NEVER_MS, Fact
from tests.lab.score.recorded import MOSTLY_SHARE, Recorded
from tests.lab.score.truth import TrueWatch
from tests.lab.score.truths import DOWN, facts_of, under_broker
from udfs.rocketmq.model import MessageQueue

SLOW_MS = 30_000
"""A collector whose rounds are further apart is reported as slow, and kinds that need turns are hidden."""

SKEW_MS = 10_000
"""A clock further off is reported."""

SKEW_MARGIN_MS = 10_000
"""Beyond a tick's interval: what a source may be behind by without a report."""

QUARANTINED_MS = 60_000
"""A clock event so far ahead of Kafka moves nothing."""

EXPIRY_MS = 140_000
"""A channel that is only listed proves nothing before a dead one would have expired: 120 s, a scan, a round."""

SILENT_MS = 120_000
"""A broker that misses every round for so long is one without data."""

HELD = {"split_view", "member_not_subscribed", "stale_route", "mixed_strategy", "pull_stopped"}
"""Causes whose queues a client may go on asking for in vain: to a collector that looks as if they were pulled."""

BY_CHANNELS = {"duplicate_client_id", "split_view"}
"""Kinds and causes that compare the heartbeats of channels."""

BY_PULLS = {*HELD, "order_lock", "duplicate_client_id", "strategy_gap", "consume_disabled"}
"""Causes of starved queues that only the answers of the owner show before its commits do."""

BY_HEARTBEATS = {"duplicate_client_id", "group_offline", "split_view", "inconsistent_subscription"}
"""Kinds that heartbeats show, so that lost answers of clients delay no detection."""

LEFT_ALONE_MS = 180_000
"""How long a collector leaves a client alone that did not answer."""

BLAMED = {"frozen_client", "pull_stopped", "consume_stopped"}
"""Causes of a starved queue for which an alert may blame a client: one that holds the queue."""

UNDER_A_BROKER = {"starved_queue": "pull_stopped", "stalled_queue": "pull_stopped"}
"""To agents a dead broker is one that its clients do not reach: nobody pulls its queues, and no consumer shows why."""


def facts_under(watched: TrueWatch) -> Iterator[Fact]:
    """Yield every fact, `required` as far as the conditions let it be known."""
    patience_ms = _patience_ms(watched)
    made = list(_made_by(watched))
    for fact in _facts_of(watched, patience_ms):
        known = _held_open(_as_known(replace(fact, patience_ms=patience_ms), watched), made)
        yield known
        if watched.conditions.view == "agents" and fact.kind in DOWN:
            for kind, cause in UNDER_A_BROKER.items():
                yield under_broker(replace(known, kind=kind, cause=cause, also=ALSO[cause]), known)
    for fact in made:
        yield replace(fact, patience_ms=patience_ms)


def _facts_of(watched: TrueWatch, patience_ms: int) -> Iterator[Fact]:
    """Yield every fact of the play. Heartbeats show some of them, however many answers of clients are lost."""
    if not watched.conditions.lost_answers:
        yield from facts_of(watched.simulation, patience_ms)
        return
    by_heartbeats = facts_of(watched.simulation, patience_ms - LEFT_ALONE_MS)
    for one, other in zip(by_heartbeats, facts_of(watched.simulation, patience_ms), strict=True):
        yield one if _rests_on_heartbeats(one, watched) else other


def _rests_on_heartbeats(fact: Fact, watched: TrueWatch) -> bool:
    """Whether heartbeats alone show the fact."""
    is_frozen = fact.cause == "frozen_client" and not _is_of(fact, watched, watched.suspects.listed_only)
    return is_frozen or fact.kind in BY_HEARTBEATS


def _held_open(fact: Fact, made: Sequence[Fact]) -> Fact:
    """The fact with the time after its end in which a broker gives no data: missing data resolve no alert."""
    for blind in sorted((one for one in made if one.kind == "broker_no_data"), key=lambda one: one.start_ms):
        is_within = fact.end_ms is not None and blind.start_ms <= fact.resolve_by_ms
        if is_within and (blind.end_ms is None or blind.end_ms > (fact.end_ms or 0)):
            fact = replace(fact, blind_ms=NEVER_MS if blind.end_ms is None else blind.end_ms)
    return fact


def _as_known(fact: Fact, watched: TrueWatch) -> Fact:
    """The fact as these conditions show it: by other evidence, later, or not at all."""
    conditions = watched.conditions
    if conditions.view == "collector" and fact.kind == "starved_queue":
        fact = replace(fact, also=fact.also | {"consume_stopped"})  # its commits stand still
    if fact.cause == "frozen_client" and _is_of(fact, watched, watched.suspects.listed_only):
        fact = replace(fact, also=fact.also | {"pull_stopped"})  # no heartbeat of the owner is reported, ever
    if fact.cause in BLAMED:
        fact = replace(fact, clients=frozenset(_holders(fact, watched)))
    if not fact.required:
        return fact
    fact = replace(fact, later_ms=fact.later_ms + _later_ms(fact, watched))
    return replace(fact, required=not _is_short(fact, watched) and not _is_hidden(fact, watched))


def _is_short(fact: Fact, watched: TrueWatch) -> bool:
    """Whether it ends, or the play does, before its bound and two rounds have passed."""
    end_ms = watched.simulation.now_ms if fact.end_ms is None else fact.end_ms
    return end_ms - fact.onset_ms <= fact.bound_ms + fact.later_ms + fact.patience_ms


def _patience_ms(watched: TrueWatch) -> int:
    """Two poll rounds, and what is lost on the way."""
    conditions = watched.conditions
    interval_ms = watched.simulation.scenario.clock_interval_ms
    rounds = 2 / (1 - min(conditions.missed_rounds, 0.9))
    skew_ms = min(abs(conditions.skew.ahead_ms), SKEW_MS + interval_ms) if conditions.skew else 0
    left_alone_ms = LEFT_ALONE_MS if conditions.lost_answers else 0
    return int(rounds * interval_ms) + conditions.lag_ms + skew_ms + left_alone_ms


def _later_ms(fact: Fact, watched: TrueWatch) -> int:
    """How much later than its bound a fact can be known, as other evidence must show it."""
    conditions = watched.conditions
    is_starved = fact.kind == "starved_queue"
    suspects = watched.suspects
    is_by_commits = is_starved and (
        (fact.cause in BY_PULLS and _is_of(fact, watched, suspects.mute))
        or (fact.cause == "frozen_client" and _is_of(fact, watched, suspects.listed_only))
    )
    later_ms = max(0, BOUNDS_MS["consume_stopped"] - fact.bound_ms) if is_by_commits else 0
    if is_starved and fact.cause == "consume_stopped":
        later_ms += _masterless_ms(fact, watched)
    if conditions.listed_only and (fact.kind in BY_CHANNELS or fact.cause in BY_CHANNELS):
        later_ms += EXPIRY_MS
    if conditions.lost_answers and _rests_on_heartbeats(fact, watched):
        later_ms -= LEFT_ALONE_MS  # the patience of the play includes it
    return later_ms


def _masterless_ms(fact: Fact, watched: TrueWatch) -> int:
    """Return how long the queue's broker has no master after the onset: a slave's commits are too old to judge."""
    if not isinstance(watched, Recorded) or fact.queue is None:
        return 0
    broker_name = fact.queue.rpartition(":")[0]
    since_ms = [one - fact.onset_ms for one in watched.masterless_ms.get(broker_name, ()) if one >= fact.onset_ms]
    return since_ms[-1] if since_ms and since_ms[0] <= fact.bound_ms else 0


def _is_hidden(fact: Fact, watched: TrueWatch) -> bool:
    """Whether no watcher can know it under these conditions; a claim of it must be right all the same."""
    conditions = watched.conditions
    is_blind = conditions.ahead_ms("collector") > QUARANTINED_MS
    is_slow = watched.simulation.scenario.clock_interval_ms > SLOW_MS
    return (
        is_blind
        or (is_slow and fact.kind == "double_consumed_queue")
        or (conditions.view == "agents" and fact.kind in ("broker_no_data", "cluster_no_data"))
        or (conditions.view == "collector" and _is_hidden_from_rounds(fact, watched))
    )


def _is_hidden_from_rounds(fact: Fact, watched: TrueWatch) -> bool:
    compares_brokers = fact.kind in ("split_view", "group_offline") or fact.cause in ("split_view", "group_offline")
    is_lost = watched.conditions.missed_rounds >= MOSTLY_SHARE and (
        compares_brokers or fact.broker_name == watched.suspects.broker_name
    )
    is_doubled = fact.kind == "double_consumed_queue"  # infos have no address, so twins are one
    is_of_twins = is_doubled and fact.cause in (None, "duplicate_client_id")
    return (
        is_lost
        or is_of_twins
        or _is_unread(fact, watched)
        or (is_doubled and _is_of(fact, watched, watched.suspects.mute))
    )


def _is_unread(fact: Fact, watched: TrueWatch) -> bool:
    """Whether a slave serves only clients that never answer: a collector knows from their answers who serves them."""
    if fact.kind != "slave_read" or not isinstance(watched, Recorded):
        return False
    readers = watched.readers.get((fact.consumer_group or "", fact.broker_name or ""), set())
    return bool(readers) and readers <= watched.suspects.mute


def _is_of(fact: Fact, watched: TrueWatch, client_ids: frozenset[str]) -> bool:
    """Whether one of these clients owns the fact's queue."""
    return bool(client_ids) and fact.queue is not None and not client_ids.isdisjoint(_owners(fact, watched))


def _owners(fact: Fact, watched: TrueWatch) -> set[str]:
    holders = set(_holders(fact, watched))
    if holders:
        return holders
    scenario = watched.simulation.scenario
    members = [
        one for group in scenario.groups if group.consumer_group == fact.consumer_group for one in group.consumers
    ]
    hit = {one.client_id for one in members if any(what.consumer == one.name for what in scenario.happenings)}
    return hit or {one.client_id for one in members}


def _holders(fact: Fact, watched: TrueWatch) -> set[str]:
    if not isinstance(watched, Recorded) or fact.queue is None or fact.topic is None:
        return set()
    broker_name, _, queue_id = fact.queue.rpartition(":")
    mq = MessageQueue(fact.topic, broker_name, int(queue_id))
    return watched.holders.get((fact.consumer_group or "", mq), set())


def _made_by(watched: TrueWatch) -> Iterator[Fact]:
    """Yield what the conditions themselves make true."""
    conditions, interval_ms = watched.conditions, watched.simulation.scenario.clock_interval_ms
    is_refused = conditions.ahead_ms("collector") > QUARANTINED_MS
    yield from _clocks(watched)
    if is_refused:
        yield _fact("cluster_no_data", watched, required=False)  # its times are refused, and no other clock ticks
    if interval_ms >= SLOW_MS:
        slow = _fact("slow_collector", watched, required=interval_ms > SLOW_MS and not is_refused)
        yield replace(slow, later_ms=max(0, 3 * interval_ms - slow.bound_ms))  # three gaps between rounds show it
    if isinstance(watched, Recorded) and conditions.missed_rounds:
        yield from _without_data(watched, is_refused=is_refused)


def _clocks(watched: TrueWatch) -> Iterator[Fact]:
    """Yield the machines whose clock is off, or whose events are as late as if it were."""
    conditions = watched.conditions
    if conditions.lag_ms >= SKEW_MS:
        for role in ("broker", "client"):
            yield _fact("clock_skew", watched, required=False, machine=f"{role}:")
    if conditions.skew is None or abs(conditions.skew.ahead_ms) < SKEW_MS:
        return
    role: str = conditions.skew.role
    suspects = watched.suspects
    name = {"broker": suspects.broker_name, "client": suspects.client_id}.get(role, "")
    is_known = _must_describe_skew(conditions, watched.simulation.scenario.clock_interval_ms)
    if conditions.skew.ahead_ms > QUARANTINED_MS and role in ("collector", "run"):
        role = "clock"  # its times are refused, so it is reported as what keeps the cluster's time
    yield _fact("clock_skew", watched, required=is_known, machine=f"{role}:{name}")


def _without_data(watched: Recorded, *, is_refused: bool) -> Iterator[Fact]:
    """Yield when the broker that misses rounds missed all of them for long, or most of them."""
    name = watched.suspects.broker_name
    silent_ms = watched.start_ms
    for time_ms, missed in watched.rounds:
        if name in missed:
            continue
        if time_ms - silent_ms > SILENT_MS:
            yield replace(
                _fact("broker_no_data", watched, required=False, broker_name=name), start_ms=silent_ms, end_ms=time_ms
            )
        silent_ms = time_ms
    for start_ms, end_ms, most_ms in watched.seldom(name):
        is_most = most_ms > watched.window_ms + _patience_ms(watched) and not is_refused
        yield replace(
            _fact("broker_no_data", watched, required=is_most, broker_name=name),
            start_ms=start_ms,
            end_ms=None if end_ms == watched.simulation.now_ms else end_ms,
            later_ms=watched.window_ms - BOUNDS_OF_KIND_MS["broker_no_data"],
        )


def _must_describe_skew(conditions: Conditions, interval_ms: int) -> bool:
    """Whether a broker's or a collector's clock is off by more than lag explains. A client's, or ours, need not be."""
    if conditions.skew is None or conditions.lag_ms:
        return False
    role, ahead_ms = conditions.skew.role, conditions.skew.ahead_ms
    if role == "broker" and conditions.view == "collector":
        return abs(ahead_ms) > SKEW_MS
    return role in ("broker", "collector") and abs(ahead_ms) > max(SKEW_MS, interval_ms + SKEW_MARGIN_MS)


def _fact(
    kind: str, watched: TrueWatch, *, required: bool, broker_name: str | None = None, machine: str | None = None
) -> Fact:
    """A fact of the run's whole time, required where that is long enough."""
    start_ms = watched.start_ms
    is_long = watched.simulation.now_ms - start_ms > 300_000 + 6 * watched.simulation.scenario.clock_interval_ms
    labels = (None, None, None, broker_name, None, None)
    fact = Fact(kind, *labels, start_ms, None, required and is_long)
    return replace(fact, machine=machine, known_ms=watched.simulation.now_ms)
