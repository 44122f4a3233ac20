"""The output of `whatif`: verdict, queues by client, the matrix of queues and clients, sends."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby, islice, product
from string import ascii_uppercase
from typing import Any

from rich.padding import Padding
from rich.table import Table

from streaming.terminal.printing import print_rows
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from udfs.alerts.prose import name_queues
from udfs.rocketmq.model import queue_order
from udfs.whatif.allotment import Allotment, allot
from udfs.whatif.comparison import RECOVERED, SAME, QueueChange, compare, describe_reasons, describe_verdict
from udfs.whatif.group import Group

TAKES, LEAVES = "x", "."


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
    console = VisibleConsole()
    console.print(report["verdict"])
    for line in (*report["reasons"], *(f"Note: {note}" for note in report["notes"])):
        console.print(Padding(f"- {line}", (0, 0, 0, 2), expand=False))
    sides = ("before", "after") if is_changed else ("after",)
    titles = {side: side if is_changed else "now" for side in sides}
    labels = list(dict.fromkeys(c["client"] for side in ("before", "after") for c in report[side]["clients"]))
    letters = dict(zip(labels, _letters(len(labels)), strict=True))
    console.print()
    if labels:
        console.print(_clients(report, letters, titles))
    lines = list(_matrix(report, letters, titles))
    if max(map(len, lines)) <= console.width and len(lines) <= max(console.height, 60):
        for line in lines:
            console.print(line)
    else:
        console.print(f"The matrix of {len(labels)} clients is wider than the terminal; --format csv prints it.")


def _clients(report: dict[str, Any], letters: dict[str, str], titles: dict[str, str]) -> Table:
    """Return the table of clients with their letters and queue ranges."""
    table = Table()
    table.add_column("", no_wrap=True)
    table.add_column("client", overflow="fold")
    for side, title in titles.items():
        table.add_column(f"{title}, {report[side]['strategy']}", overflow="fold")
    by_label = {side: {client["client"]: client for client in report[side]["clients"]} for side in titles}
    for label, letter in letters.items():
        shown = [by_label[side].get(label) for side in titles]
        addr = next((client["client_addr"] for client in shown if client and client["client_addr"]), None)
        cells = [_share(client, report[side]["strategy"]) for client, side in zip(shown, titles, strict=True)]
        table.add_row(letter, f"{label} at {addr}" if addr else label, *cells)
    return table


def _share(client: dict[str, Any] | None, usual: str) -> str:
    if client is None:
        return "absent"
    queues = client["queues"]
    own = "" if client["strategy"] == usual else f" ({client['strategy']})"
    return (f"{len(queues)}: {name_queues(queues)}" if queues else f"none: {client['idle']}") + own


def _letters(number: int) -> list[str]:
    """Return A to Z, then AA to ZZ, and so on."""
    names = ("".join(letters) for size in count(1) for letters in product(ascii_uppercase, repeat=size))
    return list(islice(names, number))


def _matrix(report: dict[str, Any], letters: dict[str, str], titles: dict[str, str]) -> Iterator[str]:
    """Yield a line for each run of equal queues, with a column for each client, before and after a change."""
    there = {side: {client["client"] for client in report[side]["clients"]} for side in titles}
    runs = groupby(report["queues"], key=lambda row: _fate(row, list(letters), there))
    rows = [(list(run), *fate) for fate, run in runs]
    width = max(len(_span(run)) for run, *_ in rows) + 2
    block = max(8, sum(len(letter) + 1 for letter in letters.values()) + 2)

    def columns(cells: Iterable[str]) -> str:
        padded = (cell.ljust(len(letter) + 1) for cell, letter in zip(cells, letters.values(), strict=True))
        return "".join(padded).ljust(block)

    yield (" " * width + "".join(title.ljust(block) for title in titles.values())).rstrip()
    yield (" " * width + columns(letters.values()) * len(titles)).rstrip()
    for run, _, blocks, remark in rows:
        yield (_span(run).ljust(width) + "".join(map(columns, blocks)) + remark).rstrip()


def _fate(row: dict[str, Any], labels: Sequence[str], there: dict[str, set[str]]) -> tuple[str, list[str], str]:
    """Return broker, marks of each side and remark: queues that agree in these share a line.

    A mark is blank where the queue or the client is absent.
    """
    blocks = []
    for side, clients in there.items():
        takers = row[side]
        blocks.append(
            "".join(
                " " if takers is None or label not in clients else TAKES if label in takers else LEAVES
                for label in labels
            )
        )
    if row["cause"]:
        remark = f"no client: {row['cause']}"
    elif row["after"] and len(row["after"]) > 1:
        remark = "taken twice" if len(row["after"]) == 2 else f"taken {len(row['after'])} times"
    elif row["change"] == RECOVERED:
        remark = "taken again" if not row["before"] else "taken once"
    else:
        remark = "" if row["change"] == SAME else row["change"]
    return row["broker_name"], blocks, remark


def _span(run: Sequence[dict[str, Any]]) -> str:
    return name_queues([f"{row['broker_name']}:{row['queue_id']}" for row in run])
