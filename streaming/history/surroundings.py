"""What happened around an incident to the members and queues of its group and to the brokers it names."""

from typing import Any

from streaming.history.moments import to_ms, to_time
from streaming.history.store import History
from streaming.history.story import HealthChange, MemberChange, QueueMove, Story

TOGETHER_MS = 60_000
"""Each broker tells the same join or leave in its own round."""

FAR_MS = 253_402_300_799_000
MOST_ROWS = 20_000
"""Read of each table; of an incident that stays open for weeks the first ones."""


def member_changes(history: History, story: Story) -> list[MemberChange]:
    """Of the group's members. What several brokers tell of one client within a minute is one change."""
    if story.consumer_group is None:
        return []
    rows = history.rows(
        f"SELECT * FROM memberships WHERE cluster = $cluster AND consumer_group = $group AND {_IN_SPAN} "
        f"ORDER BY changed_at, batch_id, broker_name, client_addr LIMIT {MOST_ROWS}",
        {"group": story.consumer_group, **_span(story)},
    )
    changes: list[MemberChange] = []
    newest: dict[tuple[str, str], int] = {}
    for row in rows:
        at_ms, channel = to_ms(row["changed_at"]), (row["broker_name"], row["client_addr"])
        key = (row["client_id"], row["change"])
        number = newest.get(key)
        if number is not None and _is_same(changes[number], at_ms, channel):
            before = changes[number]
            changes[number] = MemberChange(
                before.at_ms,
                before.change,
                before.client_id,
                (*before.channels, channel),
                before.strategy,
                before.client_version,
            )
            continue
        newest[key] = len(changes)
        changes.append(
            MemberChange(at_ms, row["change"], row["client_id"], (channel,), row["strategy"], row["client_version"])
        )
    return changes


def _is_same(change: MemberChange, at_ms: int, channel: tuple[str, str]) -> bool:
    """The same change in another broker's view: of the same host, and that broker has not told it yet."""
    broker_name, client_addr = channel
    hosts = {addr.rpartition(":")[0] for _, addr in change.channels}
    is_new = all(known != broker_name for known, _ in change.channels)
    return is_new and at_ms - change.at_ms <= TOGETHER_MS and client_addr.rpartition(":")[0] in hosts


def queue_moves(history: History, story: Story) -> list[QueueMove]:
    """Of the group's queues, and of its topic's alone where the incident has one."""
    if story.consumer_group is None:
        return []
    is_topic = " AND topic = $topic" if story.topic else ""
    rows = history.rows(
        "SELECT * FROM (SELECT *, lag(verdict) OVER w AS verdict_before, lag(planned_owner) OVER w AS planned_before, "
        "lag(observed_owners) OVER w AS observed_before FROM assignments "
        f"WHERE cluster = $cluster AND consumer_group = $group{is_topic} AND changed_at <= $until "
        "WINDOW w AS (PARTITION BY topic, broker_name, queue_id ORDER BY changed_at, batch_id)) "
        f"WHERE {_IN_SPAN} ORDER BY changed_at, batch_id, topic, broker_name, queue_id LIMIT {MOST_ROWS}",
        {"group": story.consumer_group, **_span(story), **({"topic": story.topic} if story.topic else {})},
    )
    return [
        QueueMove(
            to_ms(row["changed_at"]),
            row["topic"],
            f"{row['broker_name']}:{row['queue_id']}",
            row["verdict_before"],
            row["verdict"],
            row["planned_before"],
            row["planned_owner"],
            None if row["observed_before"] is None else tuple(row["observed_before"]),
            tuple(row["observed_owners"] or ()),
        )
        for row in rows
    ]


def health_changes(history: History, story: Story) -> list[HealthChange]:
    """Of the brokers that an incident without a group is about."""
    if not story.broker_name or story.consumer_group is not None:
        return []
    rows = history.rows(
        "SELECT * FROM broker_health WHERE cluster = $cluster AND list_contains($brokers, broker_name) "
        f"AND {_IN_SPAN} ORDER BY changed_at, batch_id, broker_name LIMIT {MOST_ROWS}",
        {"brokers": story.broker_name.split(","), **_span(story)},
    )
    return [
        HealthChange(
            to_ms(row["changed_at"]),
            row["broker_name"],
            row["unavailable_producers"],
            row["producers"],
            to_ms(row["unavailable_until"]) if row["unavailable_until"] else None,
        )
        for row in rows
    ]


_IN_SPAN = "changed_at BETWEEN $since AND $until"


def _span(story: Story) -> dict[str, Any]:
    until = to_time(FAR_MS if story.to_ms is None else story.to_ms)
    return {"cluster": story.cluster, "since": to_time(story.from_ms), "until": until}
