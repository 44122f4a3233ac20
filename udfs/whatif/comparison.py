"""The effect of a change on each queue of a group, as data and in words."""

from collections.abc import Sequence
from typing import NamedTuple

from udfs.alerts.prose import count, join_words, name_queues
from udfs.groups.plan import DUPLICATE_CLIENT_ID, MEMBER_NOT_SUBSCRIBED, MIXED_STRATEGY, STRATEGY_GAP
from udfs.rocketmq.model import queue_order
from udfs.whatif.allotment import GROUP_OFFLINE, Allotment

SAME, MOVED, STARVED, DOUBLE_CONSUMED = "same", "moved", "starved", "doubled"
RECOVERED, ADDED, REMOVED = "recovered", "added", "removed"

BECAUSE = {
    DUPLICATE_CLIENT_ID: "several clients share ClientId {0}, and each takes the share of the first",
    MEMBER_NOT_SUBSCRIBED: "{0} counts as a member and gets these queues, but does not subscribe to the topic",
    MIXED_STRATEGY: "the clients use different allocation strategies, and none takes these queues",
    STRATEGY_GAP: "the strategy gives them to no client",
    GROUP_OFFLINE: "the group has no clients",
}
"""Cause of a gap → the reason in the verdict; {0} is the client of the slot."""


class QueueChange(NamedTuple):
    """One queue before and after: the labels of its clients, None where the queue does not exist.

    `change` is "starved" and "doubled" if it was neither before, "recovered" if it had no client or several. `cause` is
    the reason why it has no client afterwards, and `cause_client_id` the client of its slot.
    """

    broker_name: str
    queue_id: int
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    change: str
    cause: str | None
    cause_client_id: str | None

    @property
    def queue(self) -> str:
        return f"{self.broker_name}:{self.queue_id}"


def compare(before: Allotment, after: Allotment) -> list[QueueChange]:
    """Return every queue of either, in the order of the first, new ones last."""
    names = dict.fromkeys([*before.takers, *after.takers])
    changes = []
    for name in names:
        was, becomes = before.takers.get(name), after.takers.get(name)
        cause, client_id = after.gaps.get(name, (None, None))
        changes.append(QueueChange(*queue_order(name), was, becomes, _change(was, becomes), cause, client_id))
    return changes


def _change(was: tuple[str, ...] | None, becomes: tuple[str, ...] | None) -> str:
    if was is None or becomes is None:
        return ADDED if was is None else REMOVED
    if was == becomes:
        return SAME
    if not becomes:
        return STARVED
    if len(becomes) > 1 and len(was) <= 1:
        return DOUBLE_CONSUMED
    return RECOVERED if len(becomes) == 1 and len(was) != 1 else MOVED


def describe_verdict(changes: Sequence[QueueChange], before: Allotment, after: Allotment) -> str:
    """Return the numbers of queues that starve, are consumed twice and move, as one line."""
    if starved := len(after.gaps):
        reported = [f"{starved} of {count(len(after.takers), 'queue')} {_verb(starved, 'starve')}"]
    elif before.gaps:
        reported = [f"nothing starves ({count(len(before.gaps), 'queue')} before the change)"]
    else:
        reported = ["nothing starves"]
    if doubled := len(after.doubled()):
        reported.append(f"{doubled} {'is' if doubled == 1 else 'are'} consumed twice")
    if any(change.change != SAME for change in changes):
        moved = 0
        for change in changes:
            was, becomes = set(change.before or ()), set(change.after or ())
            moved += bool(was - becomes and becomes - was)
        reported.append(f"{moved or 'none'} {_verb(moved, 'move')} to another client")
    return f"{', '.join(reported)}.".capitalize()


def describe_reasons(changes: Sequence[QueueChange], before: Allotment, after: Allotment) -> list[str]:
    """Return sentences: the starved queues of each cause, the queues consumed twice, and the sizes of shares."""
    by_reason: dict[str, list[str]] = {}
    for change in changes:
        if change.cause is not None:
            by_reason.setdefault(BECAUSE[change.cause].format(change.cause_client_id), []).append(change.queue)
    starved_before = set(before.gaps) if any(change.change != SAME for change in changes) else set()
    reported = []
    for because, queues in by_reason.items():
        known = len(starved_before.intersection(queues))
        too = f" {known if known < len(queues) else 'They'} starved before the change, too." if known else ""
        reported.append(f"{name_queues(queues)} {_verb(len(queues), 'starve')}: {because}.{too}")
    if doubled := after.doubled():
        labels = sorted({label for name in doubled for label in after.takers[name]})
        by = join_words([*labels[:4], f"{len(labels) - 4} more"] if len(labels) > 4 else labels)
        are = "is" if len(doubled) == 1 else "are"
        reported.append(f"{name_queues(doubled)} {are} consumed twice, by {by}.")
    if after.shares:
        was, becomes = _span(before), _span(after)
        compared = f" ({was} before)" if before.shares and was != becomes else ""
        number = len(after.idle)
        idle = f"; {count(number, 'client')} of {len(after.shares)} {_verb(number, 'get')} none" if number else ""
        reported.append(f"Shares are {becomes} per client{compared}{idle}.")
    return reported


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _span(allotment: Allotment) -> str:
    """Return the sizes of the shares that are not empty: 2 queues, 2 to 3 queues."""
    sizes = [len(share) for share in allotment.shares.values() if share] or [0]
    few, most = min(sizes), max(sizes)
    return count(most, "queue") if few == most else f"{few} to {count(most, 'queue')}"
