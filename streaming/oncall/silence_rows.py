"""Rows of the silences table: parsed, or kept as unreadable rows, which silence nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.tables import SILENCES
from streaming.oncall.transition import need
from streaming.text.times import to_ms
from streaming.warehouse.readable_rows import UNREADABLE, Row, say_left_out, why
from udfs.alerts.pattern import read_matchers
from udfs.alerts.silence import Silence

SILENCE_TEXTS = ("silence_id", "matchers", "created_by", "comment")


@dataclass(frozen=True)
class UnreadableSilence:
    """An unreadable row of the silences table, and why it is unreadable."""

    silence_id: str
    matchers: str
    created_by: str
    comment: str
    why: str


def read_silences(rows: Iterable[Row]) -> tuple[list[Silence], tuple[UnreadableSilence, ...]]:
    """Return the newest row of each silence_id; `rows` are oldest first."""
    silences: list[Silence] = []
    unreadable: list[UnreadableSilence] = []
    for row in {row["silence_id"]: row for row in rows}.values():
        try:
            silences.append(_silence(row))
        except UNREADABLE as error:
            say_left_out(SILENCES.name, row, error)
            silence_id, matchers, created_by, comment = (str(row[name]) for name in SILENCE_TEXTS)
            unreadable.append(UnreadableSilence(silence_id, matchers, created_by, comment, why(error)))
    return silences, tuple(unreadable)


def _silence(row: Row) -> Silence:
    need(row, ("silence_id", "created_by", "comment", "matchers"))
    matchers = read_matchers(row["matchers"])
    return Silence(
        row["silence_id"],
        matchers,
        row["created_by"],
        row["comment"],
        to_ms(row["starts_at"]),
        to_ms(row["ends_at"]),
    )
