"""`split_completed`, over columns, agrees with the same rule written for one incident, for any two tables."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import ALERT_DELIVERIES, ALERTS
from streaming.relay.outbox import EVERYBODY
from streaming.relay.owed import Past
from streaming.relay.tables import ALERT_COLUMNS, LOG_COLUMNS, read_pasts, split_completed
from streaming.warehouse.rows import arrow_schema


def is_completed(
    rows: list[tuple[str, int]], log: list[dict[str, Any]], past: Past, renewed_since_ms: int, history_until_ms: int
) -> bool:
    """The rule of `split_completed` for one incident, from (state, changed_at) of its rows."""
    ends = [at_ms for state, at_ms in rows if state == "RESOLVED"]
    if not ends:
        return False
    lines = [(key, receiver, line) for key, found in past.lines.items() for receiver, line in found.items()]
    if not any(line.route is not None for _, _, line in lines):
        is_closed = any(row["receiver"] == EVERYBODY and row["status"] == "resolved" for row in log)
        return is_closed or max(ends) <= history_until_ms or all(state != "FIRING" for state, _ in rows)
    has_end_due = any(":resolved:" in key for key, _, line in lines if line.route is not None)
    is_owed = any(line.route is not None and not line.outcome for _, receiver, line in lines if receiver in RECEIVERS)
    is_renewed = any(line.answered_at_ms >= renewed_since_ms for _, _, line in lines if line.outcome)
    return has_end_due and not is_owed and not is_renewed


INCIDENTS = ("a", "b", "c")
TIMES = st.integers(0, 9)
RECEIVERS = ("pager", "chat")


def _log_row(incident: str, receiver: str, status: str, outcome: str, at: int) -> dict[str, Any]:
    return {
        "incident_id": incident,
        "receiver": receiver,
        "delivery_key": f"{incident}:{status}:1",
        "status": status,
        "outcome": outcome,
        "reason": None,
        "route": "all",
        "attempt": 1,
        "delivered_at": at,
    }


alert_rows = st.lists(
    st.fixed_dictionaries(
        {
            "incident_id": st.sampled_from(INCIDENTS),
            "state": st.sampled_from(["PENDING", "FIRING", "RECOVERING", "RESOLVED"]),
            "changed_at": TIMES,
        }
    ),
    max_size=8,
)
notified = st.builds(
    _log_row,
    st.sampled_from(INCIDENTS),
    st.sampled_from([*RECEIVERS, "gone"]),
    st.sampled_from(["firing", "resolved"]),
    st.sampled_from(["PENDING", "DELIVERED", "REFUSED", "RETRYING"]),
    TIMES,
)
held = st.builds(
    lambda incident, outcome, at: _log_row(incident, EVERYBODY, "firing", outcome, at),
    st.sampled_from(INCIDENTS),
    st.sampled_from(["SILENCED", "INHIBITED", "LIMITED"]),
    TIMES,
)
closings = st.lists(st.sampled_from(INCIDENTS), unique=True).map(
    lambda names: [_log_row(name, EVERYBODY, "resolved", "SILENCED", 9) for name in names]
)


def table(rows: list[dict[str, Any]], schema: pa.Schema, columns: tuple[str, ...]) -> pa.Table:
    """Times are ms here, us in the table."""
    times = {"changed_at", "delivered_at"}
    fields = pa.schema([schema.field(name) for name in columns])
    cells = {name: [row[name] * 1000 if name in times else row[name] for row in rows] for name in columns}
    return pa.table({name: pa.array(cells[name], fields.field(name).type) for name in columns}, schema=fields)


@given(alert_rows, st.lists(st.one_of(notified, held), max_size=10), closings, TIMES, TIMES)
def test_the_columns_and_the_rows_agree(
    alerts: list[dict[str, Any]],
    log: list[dict[str, Any]],
    last: list[dict[str, Any]],
    renewed_since_ms: int,
    history_until_ms: int,
) -> None:
    log = [*log, *last]
    pasts = read_pasts(log)
    steps: dict[str, list[tuple[str, int]]] = {}
    for row in alerts:
        steps.setdefault(row["incident_id"], []).append((row["state"], row["changed_at"]))
    expected = {
        name
        for name, rows in steps.items()
        if is_completed(
            rows,
            [row for row in log if row["incident_id"] == name],
            pasts.get(name, Past()),
            renewed_since_ms,
            history_until_ms,
        )
    }
    completed, left = split_completed(
        table(alerts, arrow_schema(ALERTS), ALERT_COLUMNS),
        table(log, arrow_schema(ALERT_DELIVERIES), LOG_COLUMNS),
        RECEIVERS,
        renewed_since_ms,
        history_until_ms,
    )
    assert set(completed.to_pylist()) == expected
    assert set(left.to_pylist()) == steps.keys() - expected
    ends = [max(at for state, at in steps[name] if state == "RESOLVED") for name in completed.to_pylist()]
    assert ends == sorted(ends)
