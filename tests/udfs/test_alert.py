"""The life of an incident: each step is written once, and identity never changes with what it is about."""

from dataclasses import replace
from typing import Any

import pytest

from udfs.alert import FIRING, RESOLVED, Finding, Incident, advance, alert_id

LABELS = {"cluster": "c", "consumer_group": "g", "topic": "orders"}
FINDING = Finding(
    "starved_queue", "frozen_client", "critical", 1000, ("It is so.", "Do this."), LABELS, queues=("a:0",)
)


def fired(finding: Finding = FINDING, now_ms: int = 5000) -> Incident:
    incident, transition = advance(None, finding, now_ms)
    assert incident is not None
    assert transition is not None
    return incident


def test_a_finding_fires_and_starts_when_it_began_to_be_so() -> None:
    incident, transition = advance(None, FINDING, 5000)
    assert incident is not None
    assert transition is not None
    assert (transition.state, transition.changed_at_ms, transition.incident) == (FIRING, 5000, incident)
    assert incident.started_at_ms == 1000
    assert incident.incident_id == f"{incident.alert_id}-1000"


def test_nothing_is_written_while_nothing_is_found() -> None:
    assert advance(None, None, 5000) == (None, None)


def test_nothing_is_written_while_nothing_changes() -> None:
    incident = fired()
    assert advance(incident, FINDING, 9000) == (incident, None)


@pytest.mark.parametrize(
    "told",
    [{"text": ("Other words.", "")}, {"evidence": {"max_offset": 7}}, {"since_ms": 9}, {"client_id": "x"}],
    ids=lambda told: next(iter(told)),
)
def test_words_and_offsets_alone_are_no_change(told: dict[str, Any]) -> None:
    incident = fired()
    assert advance(incident, replace(FINDING, **told), 9000) == (incident, None)


@pytest.mark.parametrize(
    "told",
    [{"queues": ("a:0", "a:1")}, {"cause": "pull_stopped"}, {"suppressed_by": "id-1"}],
    ids=lambda told: next(iter(told)),
)
def test_a_change_of_queues_cause_or_suppression_is_written_under_the_same_incident(told: dict[str, Any]) -> None:
    before = fired()
    after, transition = advance(before, replace(FINDING, since_ms=7000, **told), 9000)
    assert after is not None
    assert transition is not None
    assert (after.incident_id, after.started_at_ms) == (before.incident_id, 1000)
    assert (transition.state, transition.changed_at_ms) == (FIRING, 9000)


def test_a_finding_that_is_not_ready_opens_nothing_and_ends_nothing() -> None:
    held = replace(FINDING, is_ready=False, queues=("a:9",))
    assert advance(None, held, 5000) == (None, None)
    incident = fired()
    assert advance(incident, held, 9000) == (incident, None)


def test_an_incident_is_resolved_once() -> None:
    incident = fired()
    rest, transition = advance(incident, None, 66_000)
    assert rest is None
    assert transition is not None
    assert (transition.state, transition.changed_at_ms) == (RESOLVED, 66_000)
    assert transition.incident.incident_id == incident.incident_id
    assert advance(rest, None, 67_000) == (None, None)


@pytest.mark.parametrize(
    ("now_ms", "lasted"), [(66_000, "65 s"), (120_999, "119 s"), (121_000, "2 min"), (3_661_000, "61 min"), (0, "0 s")]
)
def test_the_last_row_tells_how_long_it_was(now_ms: int, lasted: str) -> None:
    _, transition = advance(fired(), None, now_ms)
    assert transition is not None
    assert transition.incident.text == (f"Over after {lasted}. It was: It is so.", "Nothing to do.")


def test_the_same_labels_give_the_same_alert_in_any_order_and_at_any_time() -> None:
    assert alert_id("k", {"a": "1", "b": "2"}) == alert_id("k", {"b": "2", "a": "1"})
    again = fired(replace(FINDING, since_ms=999_000, queues=("b:7",), client_id="other"))
    assert again.alert_id == fired().alert_id
    assert again.incident_id == f"{again.alert_id}-999000"


def test_another_kind_or_label_is_another_alert() -> None:
    ids = {alert_id("k", LABELS), alert_id("other", LABELS), alert_id("k", {**LABELS, "topic": "payments"})}
    assert len(ids) == 3


def test_an_alert_id_is_an_interface() -> None:
    """It is a key in other people's systems: the same for ever."""
    assert alert_id("starved_queue", LABELS) == "f7969425ee8982d0"
    assert len(alert_id("k", {"client_id": "${clientIP}@33318#\ud800"})) == 16
