"""The output of `whatif`: verdict, queues by client, and the queues that change."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.padding import Padding

from streaming.terminal.printing import print_rows, print_table
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from udfs.alerts.prose import name_queues
from udfs.rocketmq.model import queue_order
from udfs.whatif.allotment import Allotment, allot
from udfs.whatif.comparison import RECOVERED, SAME, QueueChange, compare, describe_reasons, describe_verdict
from udfs.whatif.group import Group


def report_of(before: Group, after: Group, notes: Sequence[str]) -> dict[str, Any]:
    """Return the result as JSON. Raises ValueError where a strategy cannot be computed (allotment.py)."""
    allotted, changed = allot(before), allot(after)
    changes = compare(allotted, changed)
    return {
        "verdict": describe_verdict(changes, allotted),
        "reasons": describe_reasons(changes, allotted, changed),
        "cluster": after.cluster,
        "consumer_group": after.consumer_group,
        "topic": after.topic,
        "notes": list(notes),
        "before": _allotment(before, allotted),
        "after": _allotment(after, changed),
        "queues": [_queue(change) for change in changes],
    }


def print_whatif(before: Group, after: Group, notes: Sequence[str], format_: str) -> None:
    """Print the result; CSV has a row for each queue. Raises ValueError as `report_of`."""
    report = report_of(before, after, notes)
    if format_ == "json":
        write_json(report)
    elif format_ == "csv":
        print_rows(report["queues"], "csv")
    else:
        _print_for_people(report, is_changed=before != after)


def _allotment(group: Group, allotment: Allotment) -> dict[str, Any]:
    return {
        "strategy": group.strategy,
        "clients": [
            {
                "client": label,
                "client_id": client.client_id,
                "client_addr": client.client_addr,
                "strategy": client.strategy or group.strategy,
                "queues": list(allotment.shares[label]),
                "idle": allotment.idle.get(label),
            }
            for label, client in group.labelled()
        ],
        "starved": [
            {"queue": queue, "cause": gap.cause, "client_id": gap.client_id} for queue, gap in allotment.gaps.items()
        ],
        "doubled": [{"queue": queue, "clients": list(allotment.takers[queue])} for queue in allotment.doubled()],
    }


def _queue(change: QueueChange) -> dict[str, Any]:
    broker_name, queue_id = queue_order(change.queue)
    return {
        "broker_name": broker_name,
        "queue_id": queue_id,
        "before": None if change.before is None else list(change.before),
        "after": None if change.after is None else list(change.after),
        "change": change.change,
        "cause": change.gap.cause if change.gap else None,
        "cause_client_id": change.gap.client_id if change.gap else None,
    }


def _print_for_people(report: dict[str, Any], *, is_changed: bool) -> None:
    """Print verdict and reasons, the queues of each client, and the queues that starve, are doubled or changed."""
    console = VisibleConsole()
    console.print(report["verdict"])
    for line in (*report["reasons"], *(f"Note: {note}" for note in report["notes"])):
        console.print(Padding(f"- {line}", (0, 0, 0, 2), expand=False))
    console.print()
    titles = {"before": "before", "after": "after"} if is_changed else {"after": "now"}
    clients: dict[str, dict[str, Any]] = {}
    for side in ("before", "after"):
        for client in report[side]["clients"]:
            clients.setdefault(client["client"], {})[side] = client
    if clients:
        shares = {f"{title}, {report[side]['strategy']}": _share(report, side) for side, title in titles.items()}
        print_table(list(clients.values()), {"client": _client, **shares})
    runs = groupby(filter(_remark, report["queues"]), key=lambda row: (row["broker_name"], *_fate(row).values()))
    fates = [{"queues": _span(run), **_fate(run[0])} for run in (list(rows) for _, rows in runs)]
    if fates:
        headings = {"queues": "queues", **titles, "result": "result"}
        print_table(fates, {heading: itemgetter(name) for name, heading in headings.items()})


def _client(sides: Mapping[str, Any]) -> str:
    label = next(iter(sides.values()))["client"]
    addr = next((client["client_addr"] for client in sides.values() if client["client_addr"]), None)
    return f"{label} at {addr}" if addr else label


def _share(report: dict[str, Any], side: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the cell of a client: its number of queues and their ranges, or why it has none."""

    def cell(sides: Mapping[str, Any]) -> str:
        client = sides.get(side)
        if client is None:
            return "absent"
        queues = client["queues"]
        own = "" if client["strategy"] == report[side]["strategy"] else f" ({client['strategy']})"
        return (f"{len(queues)}: {name_queues(queues)}" if queues else f"none: {client['idle']}") + own

    return cell


def _fate(row: dict[str, Any]) -> dict[str, str]:
    """Return the clients of a queue before and after, and the remark."""

    def clients(labels: list[str] | None) -> str:
        return "absent" if labels is None else " and ".join(labels) or "none"

    return {"before": clients(row["before"]), "after": clients(row["after"]), "result": _remark(row)}


def _remark(row: dict[str, Any]) -> str:
    """Return what is wrong with a queue or changed; empty if nothing is."""
    if row["cause"]:
        return f"no client: {row['cause']}"
    takers = len(row["after"] or ())
    if takers > 1:
        return "taken twice" if takers == 2 else f"taken {takers} times"
    if row["change"] == RECOVERED:
        return "taken once" if row["before"] else "taken again"
    return "" if row["change"] == SAME else str(row["change"])


def _span(run: Sequence[dict[str, Any]]) -> str:
    return name_queues([f"{row['broker_name']}:{row['queue_id']}" for row in run])
