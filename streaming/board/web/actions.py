"""What the forms of a writable board do: acknowledge an incident, silence it, end a silence."""

import threading
from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

import structlog

from conf.location import Location
from conf.section import duration_ms
from streaming.relay.actions import (
    ActionError,
    acknowledge,
    add_silence,
    check_text,
    end_silence,
    read_end_ms,
    read_patterns,
)
from streaming.relay.tables import RelayTables
from streaming.text.times import MINUTE
from udfs.alerts.pattern import LABELS
from udfs.alerts.phrase import phrase

AUTHOR_COOKIE = "balancewatch_author"
AUTHOR_SECONDS = 365 * 86_400
LONGEST_AUTHOR = 100

_LOCK = threading.Lock()
"""A second request of a double click finds what the first one wrote."""

log = structlog.get_logger()

Form = Mapping[str, str]


def pack_author(form: Form) -> str:
    return quote(form.get("author", "").strip()[:LONGEST_AUTHOR])


def unpack_author(cookie: str) -> str:
    author = unquote(cookie)
    return author if author.isprintable() and len(author) <= LONGEST_AUTHOR else ""


def act(warehouse: Location, action: str, incident_id: str, form: Form, now_ms: int) -> None:
    """Perform one of ACTIONS. Raises ActionError, and whatever access to a table raises."""
    with _LOCK:
        ACTIONS[action](warehouse, incident_id, form, now_ms)


def _acknowledge(warehouse: Location, incident_id: str, form: Form, now_ms: int) -> None:
    author, note = _signed(form)
    _, is_new = acknowledge(warehouse, incident_id, author, note, now_ms)
    if is_new:
        log.info("incident acknowledged", incident_id=incident_id, by=author)


def _silence(warehouse: Location, _incident_id: str, form: Form, now_ms: int) -> None:
    """Add a silence, unless an active one with the same matchers ends at most a minute earlier."""
    author, reason = _signed(form)
    given = ((label, form.get(label, "").strip()) for label in LABELS)
    matchers = {label: read_patterns(phrase("The silence covers:"), label, globs) for label, globs in given if globs}
    if not matchers:
        text = phrase("A silence without a label would cover everything; fill at least one, such as cluster = *.")
        raise ActionError(text)
    end_ms = _end_ms(form, now_ms)
    for silence in RelayTables(warehouse, may_write=False).read_silences() or []:
        if silence.matchers == matchers and silence.is_active(now_ms) and silence.ends_at_ms >= end_ms - MINUTE:
            return
    made = add_silence(warehouse, matchers, author, reason, now_ms, end_ms)
    log.info("silence added", silence_id=made.silence_id, by=author)


def _end(warehouse: Location, _incident_id: str, form: Form, now_ms: int) -> None:
    ended = end_silence(warehouse, form.get("silence_id", ""), now_ms)
    log.info("silence ended", silence_id=ended.silence_id)


ACTIONS: Mapping[str, Callable[[Location, str, Form, int], None]] = {
    "acknowledge": _acknowledge,
    "silence": _silence,
    "end": _end,
}
"""The last part of the form's path to what it does."""


def _signed(form: Form) -> tuple[str, str]:
    """Return the author and the note or reason."""
    author = check_text(phrase("Your name:"), form.get("author", "").strip()[:LONGEST_AUTHOR])
    return author, check_text(phrase("Note or reason:"), form.get("note", "").strip())


def _end_ms(form: Form, now_ms: int) -> int:
    """Return the end: after the chosen duration, unless the form has another duration or a time, in UTC."""
    own, name = form.get("own", "").strip(), phrase("Own duration or end:")
    if not own:
        return read_end_ms(phrase("Duration:"), form.get("for", ""), now_ms, is_span=True)
    if duration_ms(own) is not None:
        return read_end_ms(name, own, now_ms, is_span=True)
    return read_end_ms(name, own if own.endswith("UTC") else f"{own} UTC", now_ms, is_span=False)
