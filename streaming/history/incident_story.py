"""The history of an incident, read from the tables: its steps, and what members, queues and brokers did meanwhile.

    story = read_story(history, find_incident(history, "c87a8d88"))

`explain` prints it, and the board's incident page shows it; `lines_of` describes its parts for both. Times are epoch
ms. Lists are oldest first and have at most MOST_SHOWN items: of longer ones the first half and the last.
`IncidentStory.left_out` counts the omitted items by list name.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from schemas.tables import ASSIGNMENTS, BROKER_HEALTH, MEMBERSHIPS
from streaming.store.alerts import UnknownIncidentError
from streaming.store.current import read_silences
from streaming.store.store import History
from streaming.text.language import gettext, listed, localize
from streaming.text.times import SECOND, to_ms, to_time
from udfs.alerts.pattern import LABELS, describe_matchers, is_match
from udfs.alerts.phrase import Phrase, phrase
from udfs.alerts.prose import runs_of
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.static_labels import LabelRules, pick_static_labels
from udfs.rocketmq.model import is_queue_name

Row = dict[str, Any]

MOST_SHOWN = 200

REASONS: Mapping[str, Phrase] = {
    "first_sign": phrase("first seen; waiting to confirm"),
    "data_missing": phrase("data is missing"),
    "hold_over": phrase("confirmed"),
    "came_back": phrase("came back before it was resolved"),
    "cause_changed": phrase("cause changed"),
    "queues_changed": phrase("affected queues changed"),
    "severity_changed": phrase("severity changed"),
    "inhibited": phrase("inhibited by another open incident, does not page"),
    "cause_ended": phrase("no longer inhibited: the other incident is resolved, this one is not"),
    "figures_changed": phrase("figures changed"),
    "condition_gone": phrase("condition no longer holds; waiting to confirm"),
    "recovered": phrase("recovery confirmed"),
    "not_confirmed": phrase("condition ended before the alert fired"),
    "data_returned": phrase("data is back"),
    "group_deleted": phrase("group deleted"),
    "topic_deleted": phrase("topic deleted"),
    "forgotten": phrase("forgotten by an operator"),
    "given_up": phrase("its members, queues or brokers no longer exist"),
}
"""Sentences for udfs.alerts.life.Reason."""


def ends(number: int, most: int, always: Collection[int] = ()) -> list[int]:
    """Return the indices to show: all, or `most` of them, half from each end, and `always`."""
    if number <= most:
        return list(range(number))
    head = most // 2
    return sorted({*range(head), *range(number - (most - head), number), *always})


@dataclass(frozen=True)
class IncidentStory:
    """One incident. `summary` is the newest, `advice` the newest while it was open.

    started_ms, verdict_since_ms   when its trouble began, and since when the verdict on its queues is certain
    ended_ms                       None while it is open
    from_ms, to_ms                 range of the context: two minutes before the start until the end, None while open
    steps                          rows of the alerts table; `why` is the sentence for `reason`
    members                        JOINED, CHANGED, LEFT or EXPIRED, as several brokers report it within a minute;
                                   `channels` are (broker_name, client_addr)
    queue_changes                  queues whose planned owner, observed owners or verdict changed; `*_before` is None in
                                   the first row
    inhibitors                     the incident that inhibits this one, then the one that inhibits that one, and so on
    inhibits                       incidents that this one inhibits, or did; `inhibited_until_ms` is None while it does,
                                   `paged_ms` is the first FIRING row without inhibition, None without one or if `info`
    inhibits_by_kind, paged_by_kind  how many incidents it inhibits, and how many of these paged nevertheless
    health                         how many producers avoid the broker from `at_ms`, planned until `until_ms`
    deliveries                     the delivery log: PENDING, DELIVERED, RETRYING, REFUSED, or why no receiver got it
    not_notified_reason            why no receiver was notified, or None
    static_labels                  those that the settings add now
    silences                       those that covered the incident at some time
    """

    incident_id: str
    alert_id: str
    kind: str
    severity: str
    state: str
    cause: str | None
    cluster: str
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    client_id: str | None
    queues: tuple[str, ...]
    summary: str
    advice: str
    evidence: Mapping[str, Any]
    completeness: float | None
    flaps: int
    is_flapping: bool
    started_ms: int
    fired_ms: int | None
    changed_ms: int
    ended_ms: int | None
    from_ms: int
    to_ms: int | None
    verdict_since_ms: int | None = None
    static_labels: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[Row] = ()
    members: Sequence[Row] = ()
    queue_changes: Sequence[Row] = ()
    inhibitors: Sequence[Row] = ()
    inhibits: Sequence[Row] = ()
    inhibits_by_kind: Mapping[str, int] = field(default_factory=dict)
    paged_by_kind: Mapping[str, int] = field(default_factory=dict)
    health: Sequence[Row] = ()
    deliveries: Sequence[Row] = ()
    not_notified_reason: str | None = None
    silences: Sequence[Row] = ()
    acknowledgements: Sequence[Row] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


BEFORE_MS = 120_000
"""The context begins this long before the incident."""

MOST_INHIBITORS = 8

TOGETHER_MS = 60_000
"""Reports of the same join or leave by several brokers within this time are one change."""

MOST_ROWS = 20_000
"""Rows read from each table; of a longer history the first half and the last."""


def turning_points(steps: Sequence[Row]) -> set[int]:
    """Return the steps that are always shown: the first FIRING and the last RESOLVED."""
    firing = [number for number, step in enumerate(steps) if step["state"] == "FIRING"][:1]
    ending = [number for number, step in enumerate(steps) if step["state"] == "RESOLVED"][-1:]
    return {*firing, *ending}


def member_changes(history: History, story: IncidentStory) -> list[Row]:
    """Return changes of the group's members; reports of one client by several brokers within a minute are one."""
    if story.consumer_group is None:
        return []
    rows = _both_ends(
        history,
        "epoch_ms(changed_at) AS at_ms, change, client_id, broker_name, client_addr, strategy, client_version",
        f"SELECT * FROM {history.between(MEMBERSHIPS, story.from_ms, story.to_ms)} "
        "WHERE cluster = $cluster AND consumer_group = $group",
        "changed_at, batch_id, broker_name, client_addr",
        story,
    )
    changes: list[Row] = []
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        channel = (row.pop("broker_name"), row.pop("client_addr"))
        known = newest.get((row["client_id"], row["change"]))
        if known is not None and _is_same(known, row["at_ms"], channel):
            known["channels"].append(channel)
        else:
            changes.append(row | {"channels": [channel]})
            newest[row["client_id"], row["change"]] = changes[-1]
    return changes


def _is_same(change: Row, at_ms: int, channel: tuple[str, str]) -> bool:
    """Return whether another broker reports the same change, of the same host, for the first time."""
    broker_name, client_addr = channel
    hosts = {addr.rpartition(":")[0] for _, addr in change["channels"]}
    is_new = all(known != broker_name for known, _ in change["channels"])
    return is_new and at_ms - change["at_ms"] <= TOGETHER_MS and client_addr.rpartition(":")[0] in hosts


def queue_moves(history: History, story: IncidentStory) -> list[Row]:
    """Return changes of the group's queues, or of those of the incident's topic."""
    if story.consumer_group is None:
        return []
    return _both_ends(
        history,
        "epoch_ms(changed_at) AS at_ms, topic, concat(broker_name, ':', queue_id) AS queue, verdict_before, verdict, "
        "planned_before, planned_owner, observed_before, "
        "list_filter(coalesce(observed_owners, []), lambda client: client <> '') AS observed_owners",
        "SELECT * FROM (SELECT *, lag(verdict) OVER w AS verdict_before, lag(planned_owner) OVER w AS planned_before, "
        f"lag(observed_owners) OVER w AS observed_before FROM {history.between(ASSIGNMENTS, None, story.to_ms)} "
        "WHERE cluster = $cluster AND consumer_group = $group AND ($topic IS NULL OR topic = $topic) "
        "WINDOW w AS (PARTITION BY topic, broker_name, queue_id ORDER BY changed_at, batch_id)) "
        "WHERE changed_at >= $since",
        "changed_at, batch_id, topic, broker_name, queue_id",
        story,
    )


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


def health_changes(history: History, story: IncidentStory) -> list[Row]:
    """Return health changes of the brokers of an incident without a group."""
    if not story.broker_name or story.consumer_group is not None:
        return []
    return _both_ends(
        history,
        "epoch_ms(changed_at) AS at_ms, broker_name, unavailable_producers, producers, "
        "epoch_ms(unavailable_until) AS until_ms",
        f"SELECT * FROM {history.between(BROKER_HEALTH, story.from_ms, story.to_ms)} "
        "WHERE cluster = $cluster AND list_contains($brokers, broker_name)",
        "changed_at, batch_id, broker_name",
        story,
    )


def _both_ends(history: History, columns: str, sql: str, order: str, story: IncidentStory) -> list[Row]:
    """Return the ordered rows; of more than MOST_ROWS the first half and the last."""
    half = MOST_ROWS // 2
    params = {
        "cluster": story.cluster,
        "group": story.consumer_group,
        "topic": story.topic or None,
        "since": to_time(story.from_ms),
        "brokers": (story.broker_name or "").split(","),
    }
    return history.rows(
        f"SELECT {columns} FROM (SELECT *, row_number() OVER (ORDER BY {order}) AS nth, "
        f"count(*) OVER () AS number FROM ({sql})) WHERE nth <= {half} OR nth > number - {half} ORDER BY nth",
        params,
    )


_RELATED = (
    "incident_id, kind, state, cause, consumer_group, topic, broker_name, summary, epoch_ms(started_at) AS started_ms"
)

_EFFECTS = f"""
WITH steps AS (
    SELECT *, lead(changed_at) OVER (PARTITION BY incident_id ORDER BY changed_at, batch_id) AS next_at FROM alerts
    WHERE incident_id IN (SELECT incident_id FROM alerts WHERE inhibited_by = $id)
), effects AS (
    SELECT incident_id,
        epoch_ms(min(changed_at) FILTER (inhibited_by = $id)) AS inhibited_since_ms,
        epoch_ms(last(next_at ORDER BY changed_at, batch_id) FILTER (inhibited_by = $id)) AS inhibited_until_ms,
        epoch_ms(min(changed_at) FILTER (
            state = 'FIRING' AND inhibited_by IS NULL AND severity <> 'info'
        )) AS paged_ms
    FROM steps GROUP BY incident_id
)
SELECT {_RELATED}, inhibited_since_ms, inhibited_until_ms, paged_ms
FROM alerts_now JOIN effects USING (incident_id) ORDER BY started_at, incident_id
"""
"""Incidents that an incident inhibits, or did for a time, in order of their start."""

_INHIBITORS = f"""
WITH RECURSIVE causes AS (
    SELECT incident_id, arg_max(inhibited_by, (changed_at, batch_id)) AS cause_id FROM alerts
    WHERE inhibited_by IS NOT NULL GROUP BY incident_id
), chain AS (
    SELECT $id AS incident_id, [$id] AS seen
    UNION ALL
    SELECT causes.cause_id, list_append(chain.seen, causes.cause_id) FROM chain JOIN causes USING (incident_id)
    WHERE NOT list_contains(chain.seen, causes.cause_id) AND len(chain.seen) <= {MOST_INHIBITORS}
)
SELECT {_RELATED} FROM alerts_now JOIN chain USING (incident_id) WHERE len(seen) > 1 ORDER BY len(seen)
"""
"""The chain of inhibiting incidents, the direct one first; of a past inhibition the last."""


def newest_incident(history: History) -> str | None:
    """Return the incident that fired last among firing ones that are not inhibited; else the newest incident."""
    found = history.rows(
        "SELECT incident_id FROM alerts_now WHERE cluster <> $canary "
        "ORDER BY state = 'FIRING' AND inhibited_by IS NULL DESC, coalesce(fired_at, started_at) DESC, incident_id "
        "LIMIT 1",
        {"canary": CANARY_CLUSTER},
    )
    return str(found[0]["incident_id"]) if found else None


def read_story(history: History, incident_id: str, most: int = MOST_SHOWN, labels: LabelRules = ()) -> IncidentStory:
    """Return the incident's history, with at most `most` items in each list.

    Raises UnknownIncidentError where the tables have no row of it.
    """
    asked = {"id": incident_id}
    rows = history.rows("SELECT * FROM alerts WHERE incident_id = $id ORDER BY changed_at, batch_id", asked)
    if not rows:
        raise UnknownIncidentError(f"INCIDENT {incident_id!r} is not in the alerts table")
    story = replace(_head(rows), static_labels=pick_static_labels(labels, rows[-1]))
    left_out: dict[str, int] = {}

    def bounded(name: str, parts: Sequence[Row], always: Collection[int] = ()) -> list[Row]:
        shown = ends(len(parts), most, always)
        if len(shown) < len(parts):
            left_out[name] = len(parts) - len(shown)
        return [parts[number] for number in shown]

    steps = [_step(row) for row in rows]
    inhibits = history.rows(_EFFECTS, asked)
    deliveries = history.rows(
        "SELECT epoch_ms(delivered_at) AS at_ms, status, receiver, outcome, attempt, code, latency_ms, reason, route "
        "FROM alert_deliveries WHERE incident_id = $id ORDER BY delivered_at, batch_id",
        asked,
    )
    acknowledgements = history.rows(
        "SELECT epoch_ms(acknowledged_at) AS at_ms, acknowledged_by, note FROM acknowledgements "
        "WHERE incident_id = $id ORDER BY acknowledged_at",
        asked,
    )
    return replace(
        story,
        verdict_since_ms=verdict_since_ms(history, story),
        steps=bounded("steps", steps, turning_points(steps)),
        members=bounded("members", member_changes(history, story)),
        queue_changes=bounded("queue_changes", queue_moves(history, story)),
        health=bounded("health", health_changes(history, story)),
        inhibitors=history.rows(_INHIBITORS, asked),
        inhibits=bounded("inhibits", inhibits),
        inhibits_by_kind=dict(Counter(one["kind"] for one in inhibits)),
        paged_by_kind=dict(Counter(one["kind"] for one in inhibits if one["paged_ms"] is not None)),
        deliveries=bounded("deliveries", deliveries),
        not_notified_reason=_not_notified_reason(story, deliveries),
        silences=bounded("silences", _silences(history, story)),
        acknowledgements=bounded("acknowledgements", acknowledgements),
        left_out=left_out,
    )


def _head(rows: list[Row]) -> IncidentStory:
    newest = rows[-1]
    open_row = next((row for row in reversed(rows) if row["state"] != "RESOLVED"), newest)
    started_ms, changed_ms = to_ms(newest["started_at"]), to_ms(newest["changed_at"])
    ended_ms = changed_ms if newest["state"] == "RESOLVED" else None
    try:
        evidence = json.loads(newest["evidence"] or "{}")
    except (ValueError, RecursionError):
        evidence = None
    own = {one.name: newest[one.name] for one in fields(IncidentStory) if one.name in newest}
    own |= {"flaps": newest["flaps"] or 0, "is_flapping": bool(newest["is_flapping"])}
    own |= {"advice": open_row["advice"], "queues": _queues(open_row)}
    own["evidence"] = evidence if isinstance(evidence, dict) else {"evidence": newest["evidence"]}
    return IncidentStory(
        **own,
        started_ms=started_ms,
        fired_ms=to_ms(newest["fired_at"]) if newest["fired_at"] else None,
        changed_ms=changed_ms,
        ended_ms=ended_ms,
        from_ms=min(started_ms, to_ms(rows[0]["changed_at"])) - BEFORE_MS,
        to_ms=ended_ms,
    )


def _queues(row: Row) -> tuple[str, ...]:
    return tuple(filter(is_queue_name, row["queues"] or ()))


def _step(row: Row) -> Row:
    return {
        "at_ms": to_ms(row["changed_at"]),
        **{name: row[name] for name in ("state", "reason", "severity", "cause", "inhibited_by", "summary")},
        "why": localize(REASONS.get(row["reason"] or "", row["reason"] or "")),
        "queues": _queues(row),
    }


NOT_NOTIFIED: Mapping[str, Phrase] = {
    "SILENCED": phrase("silenced"),
    "INHIBITED": phrase("inhibited by another incident"),
    "LIMITED": phrase("limited: too many alerts of this kind fired at once"),
    "NO_ROUTE": phrase("no route matches"),
}
"""Outcome without a notification to the reason in words, the strongest first."""


def _not_notified_reason(story: IncidentStory, deliveries: Sequence[Row]) -> str | None:
    outcomes = {delivery["outcome"]: delivery["reason"] for delivery in deliveries}
    if outcomes.keys() & {"PENDING", "DELIVERED", "RETRYING", "REFUSED"}:
        return None
    if story.fired_ms is None:
        return localize(phrase("it never fired; {state} sends no notification", state=story.state))
    for outcome, words in NOT_NOTIFIED.items():
        if outcome in outcomes:
            reason = outcomes[outcome]
            return localize(words) + (f" ({reason})" if reason else "")
    return gettext("no row in the delivery log: no relay has run since it fired")


def _silences(history: History, story: IncidentStory) -> list[Row]:
    """Return the silences that matched the incident and were active during it."""
    labels = {**story.static_labels, **{name: getattr(story, name) for name in LABELS}}
    return [
        {
            **{name: getattr(silence, name) for name in ("silence_id", "created_by", "comment")},
            "match": describe_matchers(silence.matchers),
            "starts_ms": silence.starts_at_ms,
            "ends_ms": silence.ends_at_ms,
        }
        for silence in read_silences(history)
        if silence.ends_at_ms > story.started_ms
        and silence.starts_at_ms <= (story.ended_ms or silence.starts_at_ms)
        and is_match(silence.matchers, labels)
    ]


class Line(NamedTuple):
    """One event: its time, a word (a state, change, outcome, name or id), and the text."""

    at_ms: int
    word: str
    text: str


def lines_of(story: IncidentStory, moment: Callable[[int], str]) -> dict[str, list[Line]]:
    """Return the lines of each part by its name in IncidentStory. `moment` formats times within the text."""
    avoided, until = phrase("avoided by {part} of {all} producers"), phrase(", until {time}")
    covered = phrase("by {author}, {start} until {end} ({match}): {comment}")
    return {
        "steps": [*map(_step_line, story.steps)],
        "inhibitors": [*map(_related_line, story.inhibitors)],
        "inhibits": [_effect_line(row, moment) for row in story.inhibits],
        "members": [*map(_member_line, story.members)],
        "queue_changes": _queue_lines(story.queue_changes),
        "health": [
            Line(
                row["at_ms"],
                row["broker_name"],
                localize(avoided.given(part=row["unavailable_producers"], all=row["producers"]))
                + ("" if row["until_ms"] is None else localize(until.given(time=moment(row["until_ms"])))),
            )
            for row in story.health
        ],
        "deliveries": [*map(_delivery_line, story.deliveries)],
        "silences": [
            Line(
                row["starts_ms"],
                row["silence_id"],
                localize(
                    covered.given(
                        author=row["created_by"],
                        start=moment(row["starts_ms"]),
                        end=moment(row["ends_ms"]),
                        match=row["match"],
                        comment=row["comment"],
                    )
                ),
            )
            for row in story.silences
        ],
        "acknowledgements": [Line(row["at_ms"], row["acknowledged_by"], row["note"]) for row in story.acknowledgements],
    }


def _step_line(step: Row) -> Line:
    queues = gettext("; ") + listed(runs_of(step["queues"])) if step["queues"] and step["state"] == "FIRING" else ""
    under = f" ({step['inhibited_by']})" if step["inhibited_by"] and step["reason"] == "inhibited" else ""
    is_other = step["reason"] == "severity_changed"
    severity = localize(phrase(" to {severity}", severity=step["severity"])) if is_other else ""
    return Line(step["at_ms"], step["state"], f"{step['why']}{severity}{under}{queues}")


def _related_line(row: Row) -> Line:
    return Line(row["started_ms"], row["state"], f"{row['incident_id']} {row['kind']}: {row['summary']}")


def _effect_line(row: Row, moment: Callable[[int], str]) -> Line:
    """Return the incident; one that paged, or is no longer inhibited, with these times."""
    line, until_ms, paged_ms = _related_line(row), row["inhibited_until_ms"], row["paged_ms"]
    note = ""
    if paged_ms is not None and (until_ms is None or paged_ms < until_ms):
        until = "" if until_ms is None else f" until {moment(until_ms)}"
        note = f" (paged {moment(paged_ms)}; inhibited from {moment(row['inhibited_since_ms'])}{until})"
    elif until_ms is not None and (line.word != "RESOLVED" or paged_ms is not None):
        since = "" if paged_ms == until_ms or paged_ms is None else f" {moment(paged_ms)}"
        note = f" (inhibited until {moment(until_ms)}{'' if paged_ms is None else f', pages since{since}'})"
    return line._replace(text=line.text + note)


def _member_line(row: Row) -> Line:
    views = listed([f"{broker_name} ({addr})" for broker_name, addr in row["channels"]])
    runs = " ".join(filter(None, (row["client_version"], row["strategy"])))
    at = localize(phrase("{client_id} at {place}", client_id=row["client_id"], place=views))
    return Line(row["at_ms"], row["change"], at + (localize(phrase(", {sdk}", sdk=runs)) if runs else ""))


def _queue_lines(queue_changes: Sequence[Row]) -> list[Line]:
    """Return the changes; equal changes of one topic within one second are one line."""
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in queue_changes:
        alike.setdefault((row["at_ms"] // SECOND, row["topic"], _what_moved(row)), []).append(row)
    return [
        Line(rows[0]["at_ms"], "", f"{topic} {listed(runs_of([row['queue'] for row in rows]))} {moved}")
        for (_, topic, moved), rows in alike.items()
    ]


def _what_moved(row: Row) -> str:
    """Return verdict, planned owner and consumers, each with its value before where that differs."""
    after = row["verdict"], _who(row["planned_owner"]), _who(*row["observed_owners"])
    before = row["verdict_before"], _who(row["planned_before"]), _who(*(row["observed_before"] or ()))
    if row["verdict_before"] is None:
        before = after
    verdict, planned, consumed = (
        new if old == new else f"{old} → {new}" for old, new in zip(before, after, strict=True)
    )
    text = phrase("{verdict}: planned owner {planned}; consumed by {consumed}", verdict=verdict)
    return localize(text.given(planned=planned, consumed=consumed))


def _who(*clients: str | None) -> str:
    return listed([client for client in clients if client] or [gettext("none")])


def _delivery_line(row: Row) -> Line:
    who = gettext("no receiver") if row["receiver"] == "*" else row["receiver"]
    tried = phrase(", attempt {number}, {latency} ms", number=row["attempt"], latency=row["latency_ms"])
    attempt = localize(tried) if row["attempt"] else ""
    code = localize(phrase(", HTTP {code}", code=row["code"])) if row["code"] else ""
    reason = gettext(": ") + row["reason"] if row["reason"] else ""
    route = localize(phrase(", route {route}", route=row["route"])) if row["route"] else ""
    return Line(row["at_ms"], row["outcome"] or "", f"{who} {row['status'] or ''}{attempt}{code}{route}{reason}")
