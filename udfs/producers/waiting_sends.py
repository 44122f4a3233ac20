"""What producers told that waits for a tick of their cluster's clock: no more of it than a fleet can carry.

Where nobody keeps a cluster's time its sends pile up, run-length. Beyond MOST_RUNS or MOST_BYTES the oldest runs are
dropped, which is reported once until a tick comes (`events_dropped`); Kafka still has them.
"""

from collections.abc import Iterator
from dataclasses import replace

from udfs.alerts.alert import Transition, with_words
from udfs.alerts.life import Evaluation, Reason, advance, end
from udfs.alerts.rules import Rules
from udfs.brokers.source_findings import CLUSTER_NO_DATA, find_dropped_sends
from udfs.producers.attempts import next_moment_ms
from udfs.producers.fleet import Fleet

MOST_RUNS, MOST_BYTES = 300_000, 64 << 20
"""Of one cluster. 10,000 producers at 20 brokers leave 200,000 between two ticks."""

KEPT_SHARE = 0.75
"""So much is left by a drop, that not every batch makes another."""

RUN_BYTES, PRODUCER_BYTES = 200, 100
"""What a run takes in the state, and a producer at a broker beside its name, about."""


def time_of_log(fleet: Fleet, missed_ms: int, *, is_whole: bool) -> int:
    """How far time has come in a log after which nothing more is read, and whose clock nobody keeps.

    To its newest tick; where there is none, or nothing is left to read and it is `missed_ms` old, to the newest send.
    """
    times = [step.to_ms for of_broker in fleet.waiting.values() for one in of_broker.values() for step in one.steps]
    newest_ms = max(times, default=0)
    if fleet.tick_ms and not (is_whole and newest_ms >= fleet.tick_ms + missed_ms):
        return fleet.tick_ms
    return max(fleet.tick_ms, next_moment_ms(newest_ms))


def drop_oldest(fleet: Fleet) -> int:
    """Bound what waits; how many runs of send attempts had to go."""
    runs = names = 0
    for of_broker in fleet.waiting.values():
        for client_id, attempts in of_broker.items():
            runs += len(attempts.steps)
            names += PRODUCER_BYTES + 2 * len(client_id)
    size = runs * RUN_BYTES + names
    if runs <= MOST_RUNS and size <= MOST_BYTES:
        return 0
    kept = int(min(MOST_RUNS, runs * MOST_BYTES / size) * KEPT_SHARE)
    oldest = sorted(
        (step.from_ms, broker_name, client_id, number)
        for broker_name, of_broker in fleet.waiting.items()
        for client_id, attempts in of_broker.items()
        for number, step in enumerate(attempts.steps)
    )[: runs - kept]
    gone: dict[tuple[str, str], set[int]] = {}
    for _, broker_name, client_id, number in oldest:
        gone.setdefault((broker_name, client_id), set()).add(number)
    for (broker_name, client_id), numbers in gone.items():
        of_broker = fleet.waiting[broker_name]
        of_broker[client_id].steps = [
            step for number, step in enumerate(of_broker[client_id].steps) if number not in numbers
        ]
        if not of_broker[client_id].steps:
            del of_broker[client_id]
    fleet.waiting = {broker_name: of_broker for broker_name, of_broker in fleet.waiting.items() if of_broker}
    return len(oldest)


def alerts_of_drop(fleet: Fleet, cluster: str, dropped: int, rules: Rules) -> Iterator[Transition]:
    """The first drop since the newest tick."""
    fleet.dropped += dropped
    if fleet.drop is not None:
        return
    waiting = [step.from_ms for of in fleet.waiting.values() for one in of.values() for step in one.steps]
    since_ms, now_ms = (max(fleet.judged_ms, pick(waiting, default=0)) for pick in (min, max))
    at_once = replace(rules.of_kind(CLUSTER_NO_DATA), pending_ms=0, pending_evaluations=1)
    finding = find_dropped_sends(cluster, dropped, since_ms)
    fleet.drop, transition = advance(None, finding, Evaluation(now_ms), at_once, rules)
    if transition is not None:
        yield transition


def end_drop(fleet: Fleet, now_ms: int, reason: Reason = Reason.DATA_RETURNED) -> Iterator[Transition]:
    """What still waits is worked through at last, or nobody asks for it any more."""
    if fleet.drop is not None:
        over = end(fleet.drop, reason, Evaluation(max(now_ms, fleet.drop.written_ms)))
        yield with_words(over, f"{fleet.dropped} runs of sends were dropped in all.")
    fleet.drop, fleet.dropped = None, 0
