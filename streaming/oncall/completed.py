"""Which incidents need nothing more, told from whole columns of the two tables: no row of theirs becomes an object.

The same rule as `restore.is_completed`, which says it for one incident.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from streaming.oncall.record import EVERYBODY
from streaming.text.times import to_time

ALERT_COLUMNS = ("incident_id", "state", "changed_at")
LOG_COLUMNS = ("incident_id", "receiver", "delivery_key", "status", "outcome", "delivered_at")

ANSWERS = ("DELIVERED", "REFUSED")


def split_completed(
    alerts: pa.Table, log: pa.Table, receivers: Collection[str], renewed_since_ms: int, history_until_ms: int
) -> tuple[pa.Array, pa.Array]:
    """The incidents that are completed, by when they ended, and all others."""
    known = _endings(alerts).join(_deliveries(log, receivers), "incident_id")
    is_over = pc.is_valid(known["end_at"])
    was_due = _is(known["is_due"])
    is_old = pc.fill_null(pc.less_equal(known["end_at"], at(history_until_ms)), fill_value=False)
    undue = pc.or_(pc.or_(_is(known["is_closed"]), is_old), pc.invert(_is(known["has_fired"])))
    is_answered = pc.and_(_is(known["is_end_due"]), pc.invert(_is(known["is_owed"])))
    is_renewed = pc.fill_null(pc.greater_equal(known["answered_at"], at(renewed_since_ms)), fill_value=False)
    notified = pc.and_(is_answered, pc.invert(is_renewed))
    is_completed = pc.and_(is_over, pc.if_else(was_due, notified, undue))
    completed = known.filter(is_completed).sort_by("end_at")
    left = known.filter(pc.invert(is_completed))
    return completed["incident_id"].combine_chunks(), left["incident_id"].combine_chunks()


def _endings(alerts: pa.Table) -> pa.Table:
    """One row an incident: when it ended, null while it is open, and whether it ever fired."""
    is_end = pc.equal(alerts["state"], "RESOLVED")
    none = pa.scalar(None, alerts.schema.field("changed_at").type)
    columns = {
        "incident_id": alerts["incident_id"],
        "end_at": pc.if_else(is_end, alerts["changed_at"], none),
        "has_fired": pc.equal(alerts["state"], "FIRING"),
    }
    return _by_incident(pa.table(columns), {"end_at": "max", "has_fired": "any"})


def _deliveries(log: pa.Table, receivers: Collection[str]) -> pa.Table:
    """One row an incident: what was due, whether it is answered and when last, and whether it was closed unreported."""
    is_due = pc.equal(log["outcome"], "PENDING")
    is_answer = pc.is_in(log["outcome"], pa.array(ANSWERS))
    pairs = pc.binary_join_element_wise(log["delivery_key"], log["receiver"], "\n")
    is_answered = pc.is_in(pairs, pairs.filter(is_answer))
    is_ours = pc.is_in(log["receiver"], pa.array(list(receivers), pa.string()))
    is_held = pc.and_(pc.equal(log["receiver"], EVERYBODY), pc.invert(is_due))
    none = pa.scalar(None, log.schema.field("delivered_at").type)
    columns = {
        "incident_id": log["incident_id"],
        "is_due": is_due,
        "is_end_due": pc.and_(is_due, pc.match_substring(log["delivery_key"], ":resolved:")),
        "is_owed": pc.and_(pc.and_(is_due, is_ours), pc.invert(is_answered)),
        "answered_at": pc.if_else(is_answer, log["delivered_at"], none),
        "is_closed": pc.and_(is_held, pc.equal(log["status"], "resolved")),
    }
    any_of = dict.fromkeys(("is_due", "is_end_due", "is_owed", "is_closed"), "any")
    return _by_incident(pa.table(columns), any_of | {"answered_at": "max"})


def _by_incident(rows: pa.Table, how: dict[str, str]) -> pa.Table:
    grouped = rows.group_by("incident_id").aggregate(list(how.items()))
    return grouped.select(["incident_id", *(f"{name}_{one}" for name, one in how.items())]).rename_columns(
        ["incident_id", *how]
    )


def _is(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(column, fill_value=False)


def at(at_ms: int) -> pa.Scalar:
    return pa.scalar(to_time(at_ms), pa.timestamp("us", "UTC"))
