"""`balancewatch status`: what fires, whether the data are fresh, and whether deliveries work, on one screen."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from conf.settings import Settings
from schemas.tables import ACKNOWLEDGEMENTS, ALERT_DELIVERIES, ALERTS, SILENCES
from streaming.history.alerts_command import incident_layout
from streaming.history.lists import read_cluster_states
from streaming.relay.mutes import make_mutes
from streaming.relay.receivers import names_of
from streaming.store.alerts import present_alert
from streaming.store.current import count_unprocessed, read_deliveries, read_incidents, read_silences
from streaming.store.freshness import LIVE_TABLES, Freshness, read_freshness
from streaming.store.store import History
from streaming.terminal.command import fail, load
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import age, plain, print_lines, styled_state
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import say, write_json
from streaming.text.times import iso, span, wall_ms
from streaming.warehouse.warehouse_error import NotWrittenError, WarehouseError
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.prose import count, join_words
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.silence import Quiet

MOST_LISTED = 5
MOST_CLUSTERS = 6

Row = Mapping[str, Any]


def status(format_: Annotated[str, format_option("table", "json")] = "table", warehouse: Warehouse = None) -> None:
    """Print what fires, whether the data are fresh, and whether deliveries work.

    Exit code 0: all is well. 1: an alert that pages fires (not info, inhibited or silenced), data are stale (see
    board.stale_seconds) or missing, or a delivery fails. 2: wrong usage, or the tables cannot be read.

    Example: balancewatch status

    Example: balancewatch status -o json | jq -r '.problems[]'
    """
    settings = load(logs_to_stderr=False, paths={"warehouse": warehouse})
    try:
        answer = read_status(settings, wall_ms())
    except WarehouseError as error:
        fail(str(error), code=2)
    if format_ == "json":
        write_json(answer)
    else:
        _print(answer, wall_ms())
    if answer["problems"]:
        raise typer.Exit(1)


def read_status(settings: Settings, now_ms: int) -> dict[str, Any]:
    """Return the answer as JSON. `problems` are sentences; without one, all is well. Raises WarehouseError."""
    tables = (*LIVE_TABLES, ACKNOWLEDGEMENTS, ALERT_DELIVERIES, SILENCES)
    history = History(settings.paths.warehouse, list(tables))
    if ALERTS.name not in history.versions:
        raise NotWrittenError(settings.paths.warehouse, ALERTS.name)
    quiets: list[Quiet] = [*read_silences(history), *make_mutes(settings.mutes)]
    where = "state = 'FIRING' AND cluster <> $canary"
    firing = read_incidents(history, quiets, now_ms, where, {"canary": CANARY_CLUSTER}, settings.label_rules)
    loud = [row for row in firing if not (row["inhibited_by"] or row["silence_id"])]
    counts = Counter(row["severity"] for row in loud)
    freshness = read_freshness(history, now_ms, round(settings.board.stale_seconds * 1000))
    clusters = read_cluster_states(history)
    receivers = [name for receiver in settings.oncall.receivers for name in names_of(receiver)]
    deliveries = read_deliveries(history, receivers, now_ms)
    unprocessed = count_unprocessed(history, now_ms)
    problems = [
        _describe_firing(counts),
        _describe_data(freshness, clusters, now_ms),
        _describe_deliveries(deliveries, unprocessed),
    ]
    newest_ms = freshness.newest_ms
    return {
        "problems": [problem for problem in problems if problem],
        "alerts": {
            "firing": {severity: counts[severity] for severity in SEVERITIES},
            "inhibited": sum(row["inhibited_by"] is not None for row in firing),
            "silenced": sum(row["silence_id"] is not None for row in firing),
            "acknowledged": sum(row["acknowledged_by"] is not None for row in loud),
            "worst": [present_alert(row) for row in loud[:MOST_LISTED]],
        },
        "data": {
            "newest_row_at": None if newest_ms is None else iso(newest_ms),
            "is_stale": newest_ms is None or freshness.is_stale,
            "clusters": [plain(row) for row in clusters],
        },
        "deliveries": {"unprocessed": unprocessed, "receivers": [plain(row) for row in deliveries]},
    }


def _describe_firing(counts: Mapping[str, int]) -> str:
    paging = {severity: counts[severity] for severity in SEVERITIES if severity != "info" and counts[severity]}
    words = [f"{number} {severity}" for severity, number in paging.items()]
    return f"{join_words(words)} {'alert fires' if sum(paging.values()) == 1 else 'alerts fire'}" if words else ""


def _describe_data(freshness: Freshness, clusters: Sequence[Row], now_ms: int) -> str:
    if freshness.newest_ms is None:
        return "no data yet; is `run` up?"
    if freshness.is_stale:
        return f"data are stale: the newest row is {span(now_ms - freshness.newest_ms)} old; is `run` up?"
    silent = [row["cluster"] for row in clusters if row["state"] == "NO_DATA"]
    return f"data are missing from {join_words(silent)}" if silent else ""


def _describe_deliveries(deliveries: Sequence[Row], unprocessed: int) -> str:
    failing = [row["receiver"] for row in deliveries if row["state"] in ("FAILING", "LATE")]
    words = [f"deliveries to {join_words(failing)} fail"] if failing else []
    if unprocessed:
        words.append(f"no relay processed {count(unprocessed, 'firing alert')} within 2 min; is `relay` or `run` up?")
    return " and ".join(words)


def _print(answer: Row, now_ms: int) -> None:
    alerts, data, deliveries = answer["alerts"], answer["data"], answer["deliveries"]
    for problem in answer["problems"]:
        say(f"PROBLEM: {problem}")
    if not answer["problems"]:
        say("OK: no alert that pages fires, the data are fresh, deliveries work")
    firing = [f"{number:,} {severity}" for severity, number in alerts["firing"].items() if number]
    others = [f"{alerts[name]:,} {name}" for name in ("acknowledged", "silenced", "inhibited") if alerts[name]]
    say(f"\nFiring: {', '.join(firing or ['none'])}{' (' + ', '.join(others) + ')' if others else ''}")
    if worst := alerts["worst"]:
        print_lines(worst, {name: cell for name, cell in incident_layout(worst, now_ms).items() if name != "state"})
        if (more := sum(alerts["firing"].values()) - len(worst)) > 0:
            say(f"and {more:,} more: balancewatch alerts --state FIRING")
    newest = data["newest_row_at"]
    say(f"\nData: {'no row yet' if newest is None else 'newest row ' + age(newest, now_ms) + ' ago'}")
    if clusters := sorted(data["clusters"], key=lambda row: row["state"] == "OK"):
        state = "STALE" if data["is_stale"] else None
        print_lines(
            clusters[:MOST_CLUSTERS],
            {
                "cluster": lambda row: row["cluster"],
                "data": lambda row: styled_state(state or ("fresh" if row["state"] == "OK" else row["state"])),
                "newest change": lambda row: age(row["newest_change_at"], now_ms),
                "without data": lambda row: " ".join(row["without_data"]),
            },
        )
        if (more := len(clusters) - MOST_CLUSTERS) > 0:
            say(f"and {more:,} more: balancewatch clusters")
    due = sum(row["due"] for row in deliveries["receivers"])
    say(f"\nDeliveries: {due:,} due, {deliveries['unprocessed']:,} unprocessed")
    print_lines(
        deliveries["receivers"],
        {
            "receiver": lambda row: row["receiver"],
            "state": lambda row: styled_state(row["state"]),
            "due": lambda row: f"{row['due']:,}",
            "delivered": lambda row: f"{age(row['delivered_at'], now_ms)} ago" if row["delivered_at"] else "never",
            "reason": lambda row: row["reason"] or "",
        },
    )
