"""The backlog of each queue of a group, by its master's offsets, and which of its changes are reported.

    Rule 1. A backlog begins when no event for HOLD_MS has shown less than LEAST_BACKLOG messages. Not: the moment
            between two commits of a busy queue, which clients commit every 5 s.
    Rule 2. It changed when it has doubled or halved since the newest row, HOLD_MS after that row at the earliest. So a
            row is within a factor of two of the backlog, and one that hovers around any figure writes nothing.
    Rule 3. It is over once it has halved and is below LEAST_BACKLOG, at once.
    Rule 4. It is unknown when the queue is gone, a slave serves it, its offsets are missing for STALE_MS, or its
            clients keep them elsewhere.

A queue without a reported backlog has no entry in the state. Commits that fall back lengthen the backlog, an end below
the commit is a backlog of 0, and a queue without a commit has none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from udfs.alerts.rules import Rules
from udfs.groups.queue_state import LEAST_BACKLOG, NOT_JUDGED, Consumption, Pull, QueueState, note_offsets
from udfs.groups.state import GroupState
from udfs.groups.verdict_reason import ASSIGNED
from udfs.groups.verdicts import KEEP_COMMITS

HOLD_MS = 60_000
"""A backlog that lasts a minute is more than a burst; a row a minute and queue is the most that one writes."""

STALE_MS = 300_000
"""Collectors repeat the offsets of a queue with a backlog every 60 s, or round; a busy one takes several rounds."""

Reported = tuple[int, int]
"""The messages of the newest row, and the time of the row."""


@dataclass(frozen=True)
class BacklogRow:
    """The backlog of a queue is another one; None messages: unknown from now on."""

    topic: str
    queue: str
    messages: int | None


FAR_MS = 1 << 62


def due_ms(reported: Reported | None, known: Consumption) -> int:
    """Rules 1 to 3: when the next row is due unless other offsets arrive."""
    if reported is None:
        return FAR_MS if known.behind_ms is None else known.behind_ms + HOLD_MS
    messages, (before, at_ms) = known.max_offset - known.commit_offset, reported
    if before < 2 * messages < 4 * before:
        return FAR_MS
    return 0 if messages < LEAST_BACKLOG else at_ms + HOLD_MS


def keeps_offsets(queue_state: QueueState, known: Consumption) -> bool:
    """Whether the offsets at the broker are those by which the group consumes (verdicts.py)."""
    if queue_state.reason == ASSIGNED:
        return known.consumed_ms is not None
    return queue_state.verdict != NOT_JUDGED or queue_state.reason in KEEP_COMMITS


def has_news(group: GroupState, name: str, queue_state: QueueState, pull: Pull) -> bool:
    """Whether this event, which is not noted yet, changes when the next row of a reported backlog is due."""
    known, reported = queue_state.consumption, group.backlogs.get(pull.topic, {}).get(name)
    if known is None or reported is None:
        return False
    after = note_offsets(replace(known), pull)
    return after is None or due_ms(reported, after) != due_ms(reported, known)


def stale_ms(rules: Rules) -> int:
    return STALE_MS + rules.max_evaluation_gap_ms


def next_row_ms(group: GroupState, rules: Rules) -> int:
    """Return when the next row is due, or a reported backlog is stale, unless other offsets arrive."""
    next_ms = FAR_MS
    for topic, topic_state in group.topics.items():
        reported = group.backlogs.get(topic, {})
        for name, queue_state in topic_state.queues.items():
            known, before = queue_state.consumption, reported.get(name)
            if known is not None and keeps_offsets(queue_state, known):
                next_ms = min(next_ms, due_ms(before, known))
                next_ms = next_ms if before is None else min(next_ms, known.reported_ms + stale_ms(rules))
    return next_ms


def report_backlogs(group: GroupState, now_ms: int, rules: Rules) -> list[BacklogRow]:
    """Return the rows of this evaluation, after its verdicts; the state keeps what was reported."""
    rows = []
    for topic, topic_state in group.topics.items():
        reported = group.backlogs.get(topic, {})
        for name, queue_state in topic_state.queues.items():
            known, before = queue_state.consumption, reported.get(name)
            if before is None and (known is None or known.behind_ms is None):
                continue
            is_stale = known is not None and now_ms >= known.reported_ms + stale_ms(rules)
            if known is not None and is_stale:
                known.behind_ms = None
            if known is None or is_stale or not keeps_offsets(queue_state, known):
                rows += [BacklogRow(topic, name, None)] if before is not None else []
            elif now_ms >= due_ms(before, known):
                rows.append(BacklogRow(topic, name, max(known.max_offset - known.commit_offset, 0)))
    rows += [
        BacklogRow(topic, name, None)
        for topic, reported in group.backlogs.items()
        for name in reported
        if topic not in group.topics or name not in group.topics[topic].queues
    ]
    for row in rows:
        _keep(group, row, now_ms)
    return rows


def _keep(group: GroupState, row: BacklogRow, now_ms: int) -> None:
    of_topic = group.backlogs.setdefault(row.topic, {})
    of_topic.pop(row.queue, None)
    if row.messages is not None and row.messages >= LEAST_BACKLOG:
        of_topic[row.queue] = row.messages, now_ms
    if not of_topic:
        del group.backlogs[row.topic]


def end_backlogs(group: GroupState, topic: str | None = None) -> Iterator[BacklogRow]:
    """Yield the last rows of a group, or of one topic of it, that is no more."""
    for name in sorted(group.backlogs if topic is None else {topic} & group.backlogs.keys()):
        yield from (BacklogRow(name, queue, None) for queue in sorted(group.backlogs.pop(name)))
