"""The life of an alert, its rows and reasons: tests/golden/alerts.txt, and what holds of every life."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.golden import Case, each_case, scalar
from tests.support.rules import default_rules, kind_rules
from udfs.alerts.alert import Finding, Incident, Text, Transition, alert_id
from udfs.alerts.life import (
    FIRING,
    PENDING,
    RECOVERING,
    RESOLVED,
    UNKNOWN,
    Evaluation,
    Reason,
    Window,
    end,
    is_waiting,
    step,
)
from udfs.alerts.rules import Rules

LABELS = {"cluster": "c", "consumer_group": "g", "topic": "orders"}
FOUND = Finding(
    "starved_queue", "frozen_client", "critical", 1000, Text("It is so.", "Do this."), LABELS, queues=("a:0",)
)
HELD = replace(FOUND, is_ready=False)
GONE = None
OF_KIND = kind_rules(pending_ms=20_000, pending_evaluations=3, recovering_ms=60_000)


@dataclass
class Alert:
    """One alert under one set of rules, looked at again and again; times are seconds."""

    rules: Rules = field(default_factory=lambda: default_rules(kinds={"*": OF_KIND}))
    incidents: dict[str, Incident] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    rows: list[Transition] = field(default_factory=list)

    def look(self, at: float, finding: Finding | None, *, is_seen: bool = True, completeness: float = 1.0) -> None:
        look = Evaluation(round(at * 1000), completeness, is_seen)
        found = {} if finding is None else {"starved_queue orders": finding}
        self.rows += step(self.incidents, self.windows, "starved_queue", found, look, self.rules)

    def looks(self, since: int, until: int, finding: Finding | None, every: int = 5, **reported: Any) -> None:
        for second in range(since, until + 1, every):
            self.look(second, finding, **reported)

    def reported(self) -> list[tuple[int, str, str]]:
        return [(row.changed_at_ms // 1000, row.state, str(row.reason)) for row in self.rows]

    @property
    def incident(self) -> Incident:
        (incident,) = self.incidents.values()
        return incident


def fired(**reported: Any) -> Alert:
    """Firing since second 20."""
    alert = Alert()
    alert.looks(0, 20, replace(FOUND, **reported))
    alert.rows.clear()
    return alert


READ: dict[str, Callable[[str], object]] = {
    "queues": lambda text: tuple(text.split(",")),
    "since_ms": lambda text: int(text) * 1_000,
    "is_ready": bool,
    "is_enabled": bool,
    "pending_ms": int,
    "pending_evaluations": int,
}
FINDINGS_OF = {
    "found": FOUND,
    "held": HELD,
    "missing": replace(FOUND, is_missing=True),
    "gone": GONE,
    "unseen": GONE,
}


@each_case("alerts")
def test_an_alert(case: Case) -> None:
    inhibited = {"inhibited_by": "cause-1"} if case.start == "inhibited" else {}
    alert = Alert() if case.start == "new" else fired(**inhibited)
    newest = None if case.start == "new" else alert.incident
    for verb, *words in map(str.split, case.steps.split(";")):
        pairs = (word.partition("=") for word in words if "=" in word)
        fields: dict[str, Any] = {name: READ.get(name, str)(value) for name, _, value in pairs}
        if verb == "kind":
            alert.rules = default_rules(kinds={"*": OF_KIND, "starved_queue": replace(OF_KIND, **fields)})
            continue
        span, _, step = words[0].partition("/")
        first, last = float(span.partition("-")[0]), float(span.rpartition("-")[2])
        finding, every = FINDINGS_OF[verb], float(step or 5)
        for number in range(int((last - first) / every) + 1):
            found = None if finding is None else replace(finding, **fields)
            alert.look(first + number * every, found, is_seen=verb != "unseen")
    case.assert_rows([f"{second} {state} {reason}" for second, state, reason in alert.reported()])
    assert {row.incident.incident_id for row in alert.rows} <= {f"{alert_id('starved_queue', LABELS)}-0"}
    if waits := case.checks.pop("waits", ""):
        assert is_waiting(alert.incidents, alert.rules) == (waits == "yes")
    newest = alert.rows[-1].incident if alert.rows else newest
    queues = {"queues": lambda text: tuple(text.split())}
    case.assert_incidents(
        {"starved_queue": newest} if newest else {},
        lambda name, text: queues[name](text) if name in queues else scalar(text, lambda at: round(at * 1_000), name),
    )


@pytest.mark.parametrize(
    "reported", [{"text": ("Other words.", "")}, {"evidence": {"max_offset": 7}}, {"since_ms": 9}, {"client_id": "x"}]
)
def test_words_and_offsets_alone_are_no_change(reported: dict[str, Any]) -> None:
    alert = fired()
    alert.looks(25, 200, replace(FOUND, **reported))
    assert alert.reported() == []


def test_figures_alone_are_reported_again_once_a_minute() -> None:
    alert = fired(figures="1 of 9")
    for second in range(25, 200, 5):
        alert.look(second, replace(FOUND, figures=f"{second} of 9"))
    assert alert.reported() == [(second, FIRING, "figures_changed") for second in (80, 140)]


def test_what_began_long_ago_and_comes_anew_is_another_incident_though_it_has_the_same_start() -> None:
    alert = Alert()
    for begin in (0, 100):
        alert.looks(begin, begin + 20, FOUND)
        alert.looks(begin + 25, begin + 95, GONE)
    assert len({row.incident.incident_id for row in alert.rows}) == 2
    assert {row.incident.started_at_ms for row in alert.rows} == {1000}


@pytest.mark.parametrize(
    ("now_ms", "lasted"), [(66_000, "65 s"), (120_999, "119 s"), (121_000, "2 min"), (3_661_000, "61 min"), (0, "0 s")]
)
def test_the_last_row_reports_how_long_it_was(now_ms: int, lasted: str) -> None:
    row = end(fired().incident, Reason.GROUP_DELETED, Evaluation(now_ms))
    assert (row.state, row.reason) == (RESOLVED, "group_deleted")
    assert (*map(str, row.incident.text),) == (f"Resolved after {lasted}: It is so.", "Nothing to do.")


def test_an_alert_that_keeps_coming_back_is_held_open_as_one_incident_with_a_count() -> None:
    """Two minutes on, three minutes off, for two hours; a quarter of an hour of calm ends it."""
    alert, spell = Alert(), 300
    for begin in range(0, 7200, spell):
        alert.looks(begin, begin + 115, replace(FOUND, since_ms=begin * 1000))
        alert.looks(begin + 120, begin + spell - 5, GONE)
    pages = [row for row in alert.rows if row.reason == Reason.HOLD_OVER]
    assert len(pages) == 3
    assert alert.incident.is_flapping
    assert alert.incident.flaps == 7200 // spell - 3
    assert sum(row.reason == Reason.CAME_BACK for row in alert.rows) == alert.incident.flaps
    last = 7200 - spell + 120
    alert.looks(7200, last + 30 * 60, GONE)
    assert alert.reported()[-1][1:] == (RESOLVED, "recovered")
    assert 12 * 60 < alert.reported()[-1][0] - last < 25 * 60
    alert.looks(last + 30 * 60, last + 60 * 60, GONE)
    assert alert.windows == {}


def test_a_list_of_queues_that_goes_on_changing_is_reported_now_and_then_and_not_each_tick() -> None:
    alert = fired()
    for second in range(30, 330, 10):
        alert.look(second, replace(FOUND, queues=tuple(f"a:{number}" for number in range(second))))
    rows = [second for second, _, reason in alert.reported() if reason == "queues_changed"]
    assert len(rows) == 3
    assert all(later - earlier >= 80 for earlier, later in pairwise(rows))


def test_evidence_in_a_row_is_bounded_and_says_how_much_there_was() -> None:
    queues = {f"a:{number}": {"planned_owner": "c1"} for number in range(4096)}
    incident = fired(evidence={"queues": queues, "views": {"a": [f"c{n}" for n in range(300)]}}).incident
    assert len(incident.evidence["queues"]) == 100
    assert incident.evidence["queues_count"] == 4096
    assert (len(incident.evidence["views"]["a"]), incident.evidence["views"]["a_count"]) == (100, 300)


def test_an_alert_id_rests_on_kind_and_labels_alone_and_is_an_interface() -> None:
    """It is a key in other systems: the same for ever."""
    assert alert_id("starved_queue", LABELS) == "f7969425ee8982d0"
    assert len(alert_id("k", {"client_id": "${clientIP}@33318#\ud800"})) == 16
    assert alert_id("k", {"a": "1", "b": "2"}) == alert_id("k", {"b": "2", "a": "1"})
    assert len({alert_id("k", LABELS), alert_id("other", LABELS), alert_id("k", {**LABELS, "topic": "payments"})}) == 3
    again = fired(since_ms=999_000, queues=("b:7",), client_id="other").incident
    assert again.alert_id == fired().incident.alert_id
    assert again.incident_id == f"{again.alert_id}-0"
    assert again.started_at_ms == 999_000


NEXT = {
    None: {PENDING, UNKNOWN, FIRING},
    PENDING: {FIRING, RESOLVED},
    UNKNOWN: {FIRING, RESOLVED},
    FIRING: {FIRING, RECOVERING, RESOLVED},
    RECOVERING: {FIRING, RESOLVED},
    RESOLVED: {PENDING, UNKNOWN, FIRING},
}

FINDINGS = st.sampled_from([GONE, FOUND, HELD, replace(FOUND, queues=("a:1",)), replace(FOUND, inhibited_by="x")])
LOOKS = st.lists(st.tuples(st.integers(0, 90), FINDINGS, st.booleans()), max_size=60)


def walk(looks: Iterable[tuple[int, Finding | None, bool]], rules: Rules) -> Alert:
    alert, now = Alert(rules), 0
    for passed, finding, is_seen in looks:
        now += passed
        alert.look(now, finding, is_seen=is_seen)
    return alert


@given(looks=LOOKS, pending=st.integers(1, 4), recovering=st.sampled_from([0, 30_000]))
def test_whatever_is_found_the_rows_are_a_path_of_the_states(
    looks: list[tuple[int, Finding | None, bool]], pending: int, recovering: int
) -> None:
    rules = default_rules(kinds={"*": kind_rules(pending_evaluations=pending, recovering_ms=recovering)})
    state: str | None = None
    incident: str | None = None
    for row in walk(looks, rules).rows:
        assert row.state in NEXT[state]
        is_new = state in (None, RESOLVED)
        assert is_new or row.incident.incident_id == incident
        assert row.state != RESOLVED or row.incident.fired_at_ms is not None or row.reason == Reason.NOT_CONFIRMED
        state, incident = row.state, row.incident.incident_id


@given(looks=LOOKS)
def test_a_look_that_did_not_see_writes_no_end(looks: list[tuple[int, Finding | None, bool]]) -> None:
    blind = [(passed, finding, False) for passed, finding, _ in looks]
    rows = walk(blind, default_rules(kinds={"*": kind_rules(recovering_ms=0)})).rows
    assert not {row.state for row in rows} & {RECOVERING, RESOLVED}
