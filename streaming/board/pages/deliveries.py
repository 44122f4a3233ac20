"""The deliveries page: each notification with its receiver, time and outcome, and why alerts notified no receiver."""

from typing import Any

from streaming.board.page import Page, View
from streaming.board.url import Slice, read_choice, read_page, read_sort, read_span_ms
from streaming.board.words import OUTCOMES
from udfs.alerts.phrase import phrase
from udfs.alerts.rulebook import CANARY_CLUSTER

DELIVERIES_A_PAGE = 50

_NOTIFICATIONS = """
SELECT incident_id, receiver, coalesce(log.status, lower(log.state)) AS status, log.outcome, log.attempt, log.code,
    log.latency_ms, log.reason, log.route, epoch_ms(log.delivered_at) AS at_ms,
    coalesce(incident.kind, log.kind) AS kind, incident.severity, incident.cluster, incident.consumer_group,
    coalesce(incident.consumer_group, incident.broker_name, incident.cluster) AS subject
FROM alert_deliveries AS log LEFT JOIN alerts_now AS incident USING (incident_id)
WHERE log.delivered_at >= make_timestamptz($from_ms * 1000)
QUALIFY row_number() OVER (
    PARTITION BY incident_id, receiver, coalesce(delivery_key, log.state || log.attempt)
    ORDER BY log.delivered_at DESC, log.batch_id DESC
) = 1
"""
"""The newest row of each notification at each receiver."""

FILTERS = {name: name for name in ("receiver", "outcome", "kind", "cluster")} | {"group": "consumer_group"}
"""Filter to the column that has its value."""

SORT = {
    "time": "at_ms",
    "receiver": "receiver",
    "outcome": "outcome",
    "kind": "kind",
    "where": "subject",
    "latency": "CASE WHEN attempt > 0 THEN latency_ms END",
}
"""Column to the SQL of its order."""


def read(view: View) -> dict[str, Any]:
    """Return the values of the page: notifications by the filters, newest first, without the canary's.

    A row is the newest state of one notification at one receiver; the receiver is * if none was notified.
    """
    asked, history = view.asked, view.history
    read_choice(asked, "outcome", OUTCOMES)
    sort = read_sort(asked, SORT)
    span_ms = read_span_ms(asked, "since", "24h")
    params = {"from_ms": view.now_ms - span_ms, "canary": CANARY_CLUSTER}
    params |= {name: asked[name] for name in FILTERS if name in asked}
    chosen = " AND ".join(
        ["cluster IS DISTINCT FROM $canary", *(f"{FILTERS[name]} = ${name}" for name in FILTERS if name in asked)]
    )
    counts = history.rows(
        f"SELECT outcome, count(*) AS n FROM ({_NOTIFICATIONS}) WHERE {chosen} GROUP BY ALL ORDER BY n DESC, outcome",
        params,
    )
    total = sum(row["n"] for row in counts)
    page, pages = read_page(asked, total, DELIVERIES_A_PAGE)
    direction = "DESC" if sort.startswith("-") else "ASC"
    order = f"{SORT[sort.removeprefix('-')]} {direction} NULLS LAST, " if sort else ""
    rows = history.rows(
        f"SELECT * FROM ({_NOTIFICATIONS}) WHERE {chosen} ORDER BY {order}at_ms DESC, incident_id, receiver "
        "LIMIT $limit OFFSET $offset",
        {**params, "limit": DELIVERIES_A_PAGE, "offset": (page - 1) * DELIVERIES_A_PAGE},
    )
    lists = ", ".join(f"list_sort(list(DISTINCT {column}))[:200] AS {name}" for name, column in FILTERS.items())
    (choices,) = history.rows(
        f"SELECT {lists} FROM ({_NOTIFICATIONS}) WHERE cluster IS DISTINCT FROM $canary",
        {"from_ms": params["from_ms"], "canary": CANARY_CLUSTER},
    )
    return {
        "asked": asked,
        "since_ms": span_ms,
        "choices": {name: [value for value in values or () if value] for name, values in choices.items()},
        "counts": {row["outcome"] or "": row["n"] for row in counts},
        "deliveries": Slice(rows, page, pages, total),
    }


PAGE = Page(
    "deliveries",
    "/deliveries",
    phrase("Deliveries"),
    read,
    nav=phrase("Deliveries"),
    parameters=frozenset({"since", *FILTERS, "sort", "page"}),
    tables=frozenset({"alert_deliveries", "alerts"}),
)
