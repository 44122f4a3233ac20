"""Changes during an incident: members and queues of its group, and the health of its brokers."""

from dataclasses import replace
from typing import Any

from schemas.tables import ASSIGNMENTS, BROKER_HEALTH, MEMBERSHIPS
from streaming.history.story import HealthChange, IncidentStory, MemberChange, QueueChange
from streaming.store.store import History
from streaming.text.times import to_ms, to_time

TOGETHER_MS = 60_000
"""Each broker reports the same join or leave in a poll round apart from the others'."""

MOST_ROWS = 20_000
"""Rows read from each table; of a longer history the first half and the last."""


def member_changes(history: History, story: IncidentStory) -> list[MemberChange]:
    """Return changes of the group's members; reports of one client by several brokers within a minute are one."""
    if story.consumer_group is None:
        return []
    rows = history.rows(
        _both_ends(
            f"SELECT * FROM {history.between(MEMBERSHIPS, story.from_ms, story.to_ms)} "
            "WHERE cluster = $cluster AND consumer_group = $group",
            "changed_at, batch_id, broker_name, client_addr",
        ),
        {"cluster": story.cluster, "group": story.consumer_group},
    )
    changes: list[MemberChange] = []
    newest: dict[tuple[str, str], int] = {}
    for row in rows:
        at_ms, channel = to_ms(row["changed_at"]), (row["broker_name"], row["client_addr"])
        key = (row["client_id"], row["change"])
        number = newest.get(key)
        if number is not None and _is_same(changes[number], at_ms, channel):
            changes[number] = replace(changes[number], channels=(*changes[number].channels, channel))
            continue
        newest[key] = len(changes)
        changes.append(
            MemberChange(at_ms, row["change"], row["client_id"], (channel,), row["strategy"], row["client_version"])
        )
    return changes


def _is_same(change: MemberChange, at_ms: int, channel: tuple[str, str]) -> bool:
    """Return whether another broker reports the same change, of the same host, for the first time."""
    broker_name, client_addr = channel
    hosts = {addr.rpartition(":")[0] for _, addr in change.channels}
    is_new = all(known != broker_name for known, _ in change.channels)
    return is_new and at_ms - change.at_ms <= TOGETHER_MS and client_addr.rpartition(":")[0] in hosts


def queue_moves(history: History, story: IncidentStory) -> list[QueueChange]:
    """Return changes of the group's queues, or of those of the incident's topic."""
    if story.consumer_group is None:
        return []
    params: dict[str, Any] = {
        "cluster": story.cluster,
        "group": story.consumer_group,
        "since": to_time(story.from_ms),
    }
    is_topic = ""
    if story.topic:
        is_topic, params["topic"] = " AND topic = $topic", story.topic
    rows = history.rows(
        _both_ends(
            "SELECT * FROM (SELECT *, lag(verdict) OVER w AS verdict_before, "
            "lag(planned_owner) OVER w AS planned_before, "
            f"lag(observed_owners) OVER w AS observed_before FROM {history.between(ASSIGNMENTS, None, story.to_ms)} "
            f"WHERE cluster = $cluster AND consumer_group = $group{is_topic} "
            "WINDOW w AS (PARTITION BY topic, broker_name, queue_id ORDER BY changed_at, batch_id)) "
            "WHERE changed_at >= $since",
            "changed_at, batch_id, topic, broker_name, queue_id",
        ),
        params,
    )
    return [
        QueueChange(
            to_ms(row["changed_at"]),
            row["topic"],
            f"{row['broker_name']}:{row['queue_id']}",
            row["verdict_before"],
            row["verdict"],
            row["planned_before"],
            row["planned_owner"],
            None if row["observed_before"] is None else tuple(row["observed_before"]),
            tuple(filter(None, row["observed_owners"] or ())),
        )
        for row in rows
    ]


def verdict_since_ms(history: History, story: IncidentStory) -> int | None:
    """Return since when a verdict on one of the incident's queues is certain; None for other kinds than starved_queue.

    The incident starts earlier: when its queues were last consumed.
    """
    if story.kind != "starved_queue":
        return None
    rows = history.rows(
        f"SELECT epoch_ms(min(since)) AS since_ms FROM {history.between(ASSIGNMENTS, story.from_ms, story.to_ms)} "
        "WHERE cluster = $cluster AND consumer_group = $group AND topic = $topic "
        "AND verdict IN ('UNOWNED', 'NOT_CONSUMED') "
        "AND list_contains($queues, concat(broker_name, ':', queue_id))",
        {
            "cluster": story.cluster,
            "group": story.consumer_group,
            "topic": story.topic,
            "queues": list(story.queues),
        },
    )
    since_ms: int | None = rows[0]["since_ms"]
    return since_ms


def health_changes(history: History, story: IncidentStory) -> list[HealthChange]:
    """Return health changes of the brokers of an incident without a group."""
    if not story.broker_name or story.consumer_group is not None:
        return []
    rows = history.rows(
        _both_ends(
            f"SELECT * FROM {history.between(BROKER_HEALTH, story.from_ms, story.to_ms)} "
            "WHERE cluster = $cluster AND list_contains($brokers, broker_name)",
            "changed_at, batch_id, broker_name",
        ),
        {"cluster": story.cluster, "brokers": story.broker_name.split(",")},
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


def _both_ends(sql: str, order: str) -> str:
    """Return SQL of the ordered rows; of more than MOST_ROWS the first half and the last."""
    half = MOST_ROWS // 2
    return (
        f"SELECT * EXCLUDE (nth, number) FROM (SELECT *, row_number() OVER (ORDER BY {order}) AS nth, "
        f"count(*) OVER () AS number FROM ({sql})) WHERE nth <= {half} OR nth > number - {half} ORDER BY nth"
    )
