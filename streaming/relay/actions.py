"""Acknowledgements and silences: the checks and writes behind `ack`, `silence` and the forms of the board.

A check takes the name of its value, an option or a field, with which the error begins.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import filter as matching
from typing import Any

from conf.location import Location
from conf.section import duration_ms
from schemas.tables import ACKNOWLEDGEMENTS, ALERTS
from streaming.relay.tables import RelayTables
from streaming.store.alerts import UnknownIncidentError, find_incident
from streaming.store.store import History
from streaming.text.language import localize
from streaming.text.suggestions import describe_choices
from streaming.text.times import DAY, MINUTE, iso, parse_moment, to_ms
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.pattern import MOST_CHARACTERS as MOST_PATTERN_CHARACTERS
from udfs.alerts.pattern import Matchers
from udfs.alerts.phrase import Words, phrase
from udfs.alerts.self_kinds import SELF_FACTS
from udfs.alerts.silence import Silence

MOST_MS = 366 * DAY
MOST_CHARACTERS = 1_000

CLOSED = {"kind": (*KIND_FACTS, *SELF_FACTS), "severity": SEVERITIES}
"""Labels whose values are known."""


class ActionError(ValueError):
    """An acknowledgement or a silence is refused. `code` is the exit code of a command: 2 for an invalid value."""

    def __init__(self, sentence: Words, code: int = 2) -> None:
        super().__init__(localize(sentence))
        self.code = code


def check_text(name: Words, text: str) -> str:
    if not text.strip() or len(text) > MOST_CHARACTERS:
        limit = phrase("{name} {text!r}: give 1 to {number} characters", name=name, text=text[:50])
        raise ActionError(limit.given(number=MOST_CHARACTERS))
    return text


def read_patterns(name: Words, label: str, globs: str) -> tuple[str, ...]:
    """Return the comma-separated patterns of a label. Raises ActionError."""
    patterns = tuple(glob.strip() for glob in globs.split(",") if glob.strip())
    if not patterns or len(globs) > MOST_PATTERN_CHARACTERS:
        text = phrase("{name} {given!r}: give a pattern of up to {number} characters after {label}=", name=name)
        raise ActionError(text.given(given=f"{label}={globs}"[:50], number=MOST_PATTERN_CHARACTERS, label=label))
    for pattern in patterns if label in CLOSED else ():
        if not matching(CLOSED[label], pattern):
            text = phrase("{name} {label}= {pattern!r}: {choices}", name=name, label=label, pattern=pattern[:50])
            raise ActionError(text.given(choices=describe_choices(pattern, CLOSED[label])))
    return patterns


def read_end_ms(name: Words, text: str, now_ms: int, *, is_span: bool) -> int:
    """Return when a silence ends: after a duration, or at a time. Raises ActionError."""
    if is_span:
        span_ms = duration_ms(text)
        if not span_ms:
            wrong = phrase("{name} {text!r} is not a duration such as 90s, 45m, 2h or 1d", name=name, text=text[:50])
            raise ActionError(wrong)
        end_ms = now_ms + span_ms
    else:
        try:
            end_ms = parse_moment(text, now_ms, is_ahead=True)
        except ValueError as error:
            raise ActionError(phrase("{name} {error}", name=name, error=str(error))) from None
    if not now_ms < end_ms <= now_ms + MOST_MS:
        raise ActionError(phrase("{name} {text}: must end within the next 366 days", name=name, text=text))
    return end_ms


def read_newest_row(warehouse: Location, text: str) -> Mapping[str, Any]:
    """Return the newest row of the incident with this id or prefix. Raises ActionError."""
    try:
        history = History(warehouse, [ALERTS])
        query = "SELECT * FROM alerts_now WHERE incident_id = $id"
        (found,) = history.rows(query, {"id": find_incident(history, text)})
    except (WarehouseError, UnknownIncidentError) as error:
        raise ActionError(str(error), code=1) from None
    return found


def acknowledge(
    warehouse: Location, incident: str, owner: str, note: str, now_ms: int
) -> tuple[Mapping[str, Any], bool]:
    """Append an acknowledgement, unless the same person gave the same one within a minute, as by a double click.

    Returns the incident's newest row and whether one was appended. Raises ActionError for an incident that is not open.
    """
    found = read_newest_row(warehouse, incident)
    incident_id = found["incident_id"]
    if found["state"] == "RESOLVED":
        over = phrase("INCIDENT {incident_id} was resolved at {time}; only an open one can be acknowledged")
        raise ActionError(over.given(incident_id=incident_id, time=iso(found["changed_at"])), code=1)
    row = {"incident_id": incident_id, "acknowledged_by": owner, "note": note, "acknowledged_at": now_ms}
    tables = RelayTables(warehouse)
    for known in tables.read_acknowledgements() or []:
        is_recent = abs(now_ms - to_ms(known["acknowledged_at"])) < MINUTE
        if is_recent and (known["incident_id"], known["acknowledged_by"], known["note"]) == (incident_id, owner, note):
            return found, False
    tables.append(ACKNOWLEDGEMENTS, [row])
    return found, True


def add_silence(warehouse: Location, matchers: Matchers, owner: str, reason: str, now_ms: int, end_ms: int) -> Silence:
    """Append a silence that begins now."""
    made = Silence(secrets.token_hex(4), matchers, owner, reason, now_ms, end_ms)
    RelayTables(warehouse).add_silence(made, now_ms)
    return made


def end_silence(warehouse: Location, silence_id: str, now_ms: int) -> Silence:
    """End a silence now; return it as it was. Raises ActionError for one that is unknown or has ended."""
    silences = RelayTables(warehouse, may_write=False).read_silences() or []
    found = next((silence for silence in silences if silence.silence_id == silence_id), None)
    if found is None:
        text = phrase("SILENCE_ID {silence_id!r} does not exist; `balancewatch silence list` lists the ids")
        raise ActionError(text.given(silence_id=silence_id[:50]), code=1)
    if found.ends_at_ms <= now_ms:
        text = phrase("silence {silence_id} ended at {time}", silence_id=silence_id)
        raise ActionError(text.given(time=iso(found.ends_at_ms, "seconds")), code=1)
    RelayTables(warehouse).add_silence(replace(found, ends_at_ms=now_ms), now_ms)
    return found
