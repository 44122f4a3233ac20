"""The incident page: what is wrong, the fix, cause and effects, notifications, and the story over time."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from shlex import quote
from typing import Any

from streaming.board.chart import GREEN, PURPLE, Axis, Bar, Chart, Key, Mark
from streaming.board.known import extent_of
from streaming.board.page import Page, View
from streaming.board.pages.alerts import BY_STATE, INHIBITED, SILENT
from streaming.board.url import AskedError
from streaming.board.words import STATE_SHAPES, span
from streaming.history.incident_story import IncidentStory, Row, lines_of, read_story
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.text.language import gettext, localize
from streaming.text.times import clock
from udfs.alerts.pattern import LABELS, incident_matchers, is_match
from udfs.alerts.phrase import join_clauses, phrase
from udfs.alerts.runbook import runbook_url

MOST_EVENTS = 300

SPANS = (("1h", phrase("1 hour")), ("4h", phrase("4 hours")), ("1d", phrase("1 day")))
"""Durations of a silence that the form offers."""

LONGEST_RUN = 4

PRODUCERS = "producers"
ABOUT = {
    "members": (phrase("members"), "◆"),
    "health": (phrase("producers"), "↗"),
    "queue_changes": (phrase("queues"), "≡"),
    "steps": (phrase("incident"), "▲"),
    "deliveries": (phrase("notification"), "✉"),
    "acknowledgements": (phrase("acknowledged"), "●"),
    "silences": (phrase("silenced"), "◌"),
}
"""Part of the story to what its events are about, and their shape. At one time, observations come before states, and
these before notifications."""


def events(story: IncidentStory, now_ms: int) -> list[Row]:
    """Return all events by time, with keys that later events do not change; `word` is a state if it is the incident's.

    Of a long run of producer changes, the first, the last and the number between are returned.
    """
    parts = lines_of(story, lambda ms: clock(ms, now_ms))
    found = [
        {**line._asdict(), "about": about.template, "shape": shape}
        for name, (about, shape) in ABOUT.items()
        for line in parts[name]
    ]
    shown: list[Row] = []
    for about, run in groupby(sorted(found, key=itemgetter("at_ms")), itemgetter("about")):
        lines = list(run)
        if about == PRODUCERS and len(lines) > LONGEST_RUN:
            words = phrase("{number} more changes of the number of producers that avoid it.", number=len(lines) - 2)
            lines[1:-1] = [{**lines[1], "word": "", "text": localize(words)}]
        shown += lines
    seen = Counter[str]()
    for event in shown:
        name = f"{event['at_ms']}-{event['about']}"
        seen[name] += 1
        event["key"] = f"{name}-{seen[name]}"
    return shown


def read(view: View) -> dict[str, Any]:
    """Return the values of the page: the story, its events oldest first, and the end of the data.

    silences   the active silences and mutes that cover the incident while it is open
    matchers   label to pattern: what a silence of it covers unless its author says otherwise
    """
    asked = view.asked.get("id")
    if not asked:
        raise AskedError(phrase("id is missing: open an incident from the alerts page, or give /incident?id=ID."))
    try:
        story = read_story(view.history, find_incident(view.history, asked), labels=view.labels)
    except UnknownIncidentError as error:
        raise AskedError(f"{error}.".replace("INCIDENT ", "id = ", 1)) from None
    labelled = view.labelled(vars(story))
    active = [silence for quiet in view.quiets if (silence := quiet.at(view.now_ms)) is not None]
    return {
        "story": story,
        "silences": [one for one in active if story.ended_ms is None and is_match(one.matchers, labelled)],
        "matchers": {label: patterns[0] for label, patterns in incident_matchers(vars(story)).items()},
        "events": events(story, view.now_ms),
        "now_ms": view.now_ms,
        "known_until_ms": view.known_until_ms,
        "runbook_url": runbook_url(view.runbooks_url, story.kind, story.cause),
    }


def draw(page: Mapping[str, Any]) -> Mapping[str, Any]:
    story: IncidentStory = page["story"]
    shown = page["events"][-MOST_EVENTS:]
    evidence = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in story.evidence.items()
    ]
    return {
        "story": story,
        "chart": states_chart(page),
        "events": shown,
        "more_events": sum(story.left_out.values()) + len(page["events"]) - len(shown),
        "evidence": [(name, text if len(text) <= 1_000 else text[:1_000] + " …") for name, text in sorted(evidence)],
        "matchers": [f"{label}={quote(pattern)}" for label, pattern in page["matchers"].items()],
        "labels": LABELS,
        "spans": SPANS,
    }


def states_chart(page: Mapping[str, Any]) -> Chart:
    """Return the band of states, which ends with the incident or with the data, and marks of membership changes.

    The axis begins at the first sign, or at a membership change shortly before, and ends with the band.
    """
    story: IncidentStory = page["story"]
    now_ms: int = page["now_ms"]
    end_ms = story.ended_ms or max(page["known_until_ms"], story.changed_ms)
    members_ms = [change["at_ms"] for change in story.members]
    times_ms = [story.started_ms, *(step["at_ms"] for step in story.steps), *members_ms, end_ms]
    axis = Axis(*extent_of(story.from_ms, max(now_ms, end_ms), times_ms))
    bars, marks, keys = [], [], dict[Key, None]()
    steps = [next(run) for _, run in groupby(story.steps, lambda step: (step["state"], step["inhibited_by"] is None))]
    for step, until_ms in zip(steps, [*(step["at_ms"] for step in steps[1:]), end_ms], strict=True):
        at_ms, state, is_inhibited = step["at_ms"], step["state"], step["inhibited_by"] is not None
        if state == "RESOLVED" or until_ms <= at_ms:
            continue
        look = INHIBITED if is_inhibited else BY_STATE.get(state, SILENT)
        name = f"{STATE_SHAPES.get(state, '·')} {state}" + (gettext(" (inhibited)") if is_inhibited else "")
        title = localize(phrase("{name} for {span}", name=name, span=span(until_ms - at_ms)))
        solid = 0.0 if look.hatch else 1.0
        bars.append(Bar(*axis.span(at_ms, until_ms), 26, 40, look.tone, look.hatch, name, title, strength=solid))
        keys[replace(look, name=name)] = None
    if members_ms:
        word = gettext("membership change")
        keys[Key(word, PURPLE, symbol="◆")] = None
        marks = [Mark(axis.x(at_ms), 12, "◆", PURPLE, f"{word}, {clock(at_ms, now_ms)}") for at_ms in members_ms]
    if story.ended_ms:
        word = gettext("resolved")
        keys[Key(word, GREEN, symbol="■")] = None
        marks.append(Mark(axis.x(end_ms), 46, "■", GREEN, f"{word}, {clock(end_ms, now_ms)}"))
    at = [phrase("{state} at {time}", state=one["state"], time=clock(one["at_ms"], now_ms)) for one in steps[:20]]
    label = phrase("States of {kind} over time: {states}. The story below lists them.", kind=story.kind)
    label = label.given(states=join_clauses(at))
    return Chart("band", localize(label), 72, axis, bars, marks, tuple(keys))


PAGE = Page(
    "incident",
    "/incident",
    phrase("Incident"),
    read,
    draw,
    parameters=frozenset({"id"}),
    back=(phrase("All alerts"), "/alerts"),
    takes_author=True,
    tables=frozenset({"acknowledgements", "alert_deliveries", "alerts", "assignments", "memberships", "silences"}),
)
