"""`balancewatch whatif`: a state from the tables or a JSON file, changes to it, and their effect."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import asdict
from rich.padding import Padding

from conf.location import Location
from schemas.tables import ASSIGNMENTS, MEMBERSHIPS
from streaming.store.store import History
from streaming.system.known_error import BalancewatchError
from streaming.terminal.command import fail, load
from streaming.terminal.format_option import format_option
from streaming.terminal.printing import print_rows, print_table
from streaming.terminal.setting_options import Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from streaming.text.suggestions import suggest
from streaming.warehouse.warehouse_error import WarehouseError
from udfs.alerts.prose import name_queues
from udfs.rocketmq.allocation import VIRTUAL_NODES
from udfs.rocketmq.model import MessageQueue
from udfs.whatif.allotment import Allotment, allot
from udfs.whatif.comparison import RECOVERED, SAME, compare, describe_reasons, describe_verdict
from udfs.whatif.group import Changes, Client, Group, change

PRESENT = ("JOINED", "CHANGED")

Row = dict[str, Any]


class UnknownGroupError(BalancewatchError):
    """The tables have no such group, topic or cluster. The message names the nearest."""


def read_group(
    warehouse: Location, consumer_group: str, topic: str, cluster: str | None, default_strategy: str
) -> tuple[Group, list[str]]:
    """Return the queues and members by the newest rows of `assignments` and `memberships`, and limits of the outcome.

    Member lists of brokers are never merged: the list of the topic's broker with most members counts, the first by name
    among equals. Raises UnknownGroupError where the group or topic does not exist, ValueError where several clusters
    have the group, and WarehouseError.
    """
    cluster, queues, views = _read_rows(History(warehouse, [ASSIGNMENTS, MEMBERSHIPS]), consumer_group, topic, cluster)
    brokers = {row["broker_name"] for row in queues}
    broker_name = min(views, key=lambda name: (name not in brokers, -len(views[name]), name), default="")
    members = views.get(broker_name, [])
    reported = [row["strategy"] for row in members if row["strategy"]]
    group = Group(
        cluster=cluster,
        consumer_group=consumer_group,
        topic=topic,
        strategy=min(set(reported), key=lambda name: (-reported.count(name), name), default=default_strategy),
        queues=tuple(sorted(MessageQueue(topic, row["broker_name"], row["queue_id"]) for row in queues)),
        clients=tuple(
            Client(
                row["client_id"],
                row["client_addr"],
                None if row["topics"] is None else tuple(row["topics"]),
                row["strategy"],
                row["client_version"],
            )
            for row in members
        ),
    )
    notes = []
    ids = {name: sorted(row["client_id"] for row in view) for name, view in views.items()}
    if others := [f"{name} lists {len(ids[name])}" for name in sorted(ids) if ids[name] != ids[broker_name]]:
        notes.append(
            f"The brokers list different members. This result uses {broker_name}'s list ({len(members)}); "
            f"{', '.join(others)}."
        )
    if members and not reported:
        notes.append(f"No client has reported its strategy; {group.strategy} is assumed.")
    if all(row["verdict"] == "NOT_JUDGED" for row in queues):
        notes.append(
            "The verdict of these queues is NOT_JUDGED: broadcasting, POP or assign() replaces a known allocation "
            "strategy, so the result may differ from what the clients do."
        )
    return group, notes


def _read_rows(
    history: History, consumer_group: str, topic: str, cluster: str | None
) -> tuple[str, list[Row], dict[str, list[Row]]]:
    """Return the group's cluster, the rows of the topic's queues, and the members by the broker that lists them."""
    asked = {"group": consumer_group}
    assignments = history.rows("FROM assignments_now WHERE consumer_group = $group", asked)
    memberships = history.rows("FROM memberships_now WHERE consumer_group = $group", asked)
    clusters = sorted({row["cluster"] for row in (*assignments, *memberships)})
    if not clusters:
        known = history.rows("SELECT consumer_group FROM assignments UNION SELECT consumer_group FROM memberships")
        nearest = suggest(consumer_group, [row["consumer_group"] for row in known])
        raise UnknownGroupError(f"--group {consumer_group!r} does not exist{nearest}")
    if cluster is not None and cluster not in clusters:
        raise UnknownGroupError(f"--cluster {cluster!r} has no group {consumer_group}; it is in {', '.join(clusters)}")
    if cluster is None and len(clusters) > 1:
        raise ValueError(
            f"group {consumer_group} is in several clusters; choose one with --cluster: {', '.join(clusters)}"
        )
    cluster = clusters[0] if cluster is None else cluster
    by_topic: dict[str, list[Row]] = {}
    for row in assignments:
        if row["cluster"] == cluster:
            by_topic.setdefault(row["topic"], []).append(row)
    if topic not in by_topic:
        raise UnknownGroupError(
            f"--topic {topic!r}: group {consumer_group} of cluster {cluster} has no queue of it"
            f"{suggest(topic, by_topic)}"
        )
    views: dict[str, list[Row]] = {}
    for row in memberships:
        if row["cluster"] == cluster and row["change"] in PRESENT:
            views.setdefault(row["broker_name"], []).append(row)
    return cluster, by_topic[topic], views


Name = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
QueueName = Annotated[str, msgspec.Meta(pattern=r"^.+:[0-9]+$")]


class _Spec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ClientSpec(_Spec, kw_only=True):
    """One channel; fields as in udfs.whatif.group.Client."""

    client_id: Name
    client_addr: str | None = None
    topics: tuple[str, ...] | None = None
    strategy: str | None = None
    client_version: str | None = None
    room: str | None = None
    config_queues: tuple[QueueName, ...] | None = None


class StateSpec(_Spec, kw_only=True):
    """One topic of one group.

    `queues` maps a broker to its readQueueNums, or to the ids of a static topic; `broker_rooms` a broker to its machine
    room.
    """

    cluster: str = ""
    consumer_group: Name
    topic: Name
    strategy: str = "AVG"
    consumer_idcs: tuple[str, ...] | None = None
    virtual_nodes: Count = VIRTUAL_NODES
    queues: dict[Name, Count | list[Count]]
    broker_rooms: dict[Name, str] = {}
    clients: list[ClientSpec]


def read_file(path: Path) -> Group:
    """Return the state in a file. Raises ValueError for an invalid file."""
    try:
        spec = msgspec.json.decode(path.read_bytes(), type=StateSpec)
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"--file {path}: {reason}; `balancewatch whatif --save FILE` writes a valid one") from None
    queues = {
        MessageQueue(spec.topic, broker_name, queue_id)
        for broker_name, ids in spec.queues.items()
        for queue_id in (range(ids) if isinstance(ids, int) else ids)
    }
    clients = tuple(Client(**asdict(client)) for client in spec.clients)
    return Group(**{**asdict(spec), "queues": tuple(sorted(queues)), "clients": clients})


def save_file(path: Path, group: Group) -> None:
    """Write the state to a new file. Raises ValueError where the file exists or cannot be written."""
    queues: dict[str, int | list[int]] = {}
    for name in group.broker_names():
        ids = sorted(mq.queue_id for mq in group.queues if mq.broker_name == name)
        queues[name] = len(ids) if ids == list(range(len(ids))) else ids
    clients = [ClientSpec(**vars(client)) for _, client in group.labelled()]
    spec = StateSpec(**{**vars(group), "queues": queues, "clients": clients})
    try:
        with path.open("x") as file:
            file.write(msgspec.json.format(msgspec.json.encode(spec), indent=2).decode() + "\n")
    except OSError as error:
        raise ValueError(f"--save {path}: {error.strerror}; name another file") from None


def report_of(before: Group, after: Group, notes: Sequence[str]) -> dict[str, Any]:
    """Return the result as JSON. Raises ValueError where a strategy cannot be computed (allotment.py)."""
    allotted, changed = allot(before), allot(after)
    changes = compare(allotted, changed)
    return {
        "verdict": describe_verdict(changes, allotted, changed),
        "reasons": describe_reasons(changes, allotted, changed),
        "cluster": after.cluster,
        "consumer_group": after.consumer_group,
        "topic": after.topic,
        "notes": list(notes),
        "before": _allotment(before, allotted),
        "after": _allotment(after, changed),
        "queues": [change._asdict() for change in changes],
    }


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
        "starved": [{"queue": queue, **gap._asdict()} for queue, gap in allotment.gaps.items()],
        "doubled": [{"queue": queue, "clients": list(allotment.takers[queue])} for queue in allotment.doubled()],
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
    fates = [
        {"queues": name_queues([f"{row['broker_name']}:{row['queue_id']}" for row in run]), **_fate(run[0])}
        for run in (list(rows) for _, rows in runs)
    ]
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

    def clients(labels: Sequence[str] | None) -> str:
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


def _names(flag: str, text: str, metavar: str) -> Any:
    return typer.Option(flag, help=f"{text} Repeat for more.", metavar=metavar)


def whatif(
    group: Annotated[str | None, typer.Option("--group", help="Consumer group in the tables.", metavar="NAME")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Topic of the group.", metavar="NAME")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Required if several clusters have the group.", metavar="NAME")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Read the state from JSON instead of the tables.", metavar="FILE")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Also write the state to a new file, for --file.", metavar="FILE")
    ] = None,
    add_client: Annotated[list[str] | None, _names("--add-client", "Client that joins.", "CLIENT_ID")] = None,
    remove_client: Annotated[
        list[str] | None, _names("--remove-client", "Client that leaves: ClientId, address or host.", "CLIENT")
    ] = None,
    twin: Annotated[list[str] | None, _names("--twin", "Another process with this ClientId.", "CLIENT_ID")] = None,
    unsubscribe: Annotated[
        list[str] | None, _names("--unsubscribe", "Member that no longer subscribes to the topic.", "CLIENT_ID")
    ] = None,
    add_broker: Annotated[list[str] | None, _names("--add-broker", "Broker that joins.", "NAME[=QUEUES]")] = None,
    remove_broker: Annotated[
        list[str] | None, _names("--remove-broker", "Broker that leaves with its queues.", "NAME")
    ] = None,
    queues: Annotated[
        list[str] | None, _names("--queues", "readQueueNums of all brokers or of one.", "[BROKER=]N")
    ] = None,
    strategy: Annotated[
        list[str] | None, _names("--strategy", "Allocation strategy of all clients or of one.", "[CLIENT_ID=]NAME")
    ] = None,
    consumer_idc: Annotated[
        list[str] | None, _names("--consumer-idc", "MACHINE_ROOM: room that the group consumes.", "ROOM")
    ] = None,
    virtual_nodes: Annotated[
        int | None, typer.Option(help="CONSISTENT_HASH: virtual nodes per client.", min=0, metavar="N")
    ] = None,
    client_version: Annotated[
        str | None, typer.Option(help="RocketMQ release of all clients.", metavar="4.9.8")
    ] = None,
    format_: Annotated[
        str, format_option("table", "json", "csv", text="table, json (everything) or csv (queues).")
    ] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Compute the effect of a change on a group: which client gets which queue.

    The result lists queues that no client gets, that two clients get or that change hands, with the reason. The command
    changes nothing. It reads one topic of one group from the tables or from a file; without a change it prints the
    current state.

    Example: balancewatch whatif --group billing --topic orders --add-client 10.0.0.9@7 --add-broker broker-c=8

    Example: balancewatch whatif --group billing --topic orders --twin 10.0.0.5@7

    Example: balancewatch whatif --group billing --topic orders --strategy 10.0.0.5@7=AVG_BY_CIRCLE --format json

    Example: balancewatch whatif --group billing --topic orders --save state.json

    Example: balancewatch whatif --file state.json --queues 16
    """
    if (file is None) == (group is None or topic is None) or (file is not None and (group or topic)):
        fail("give either --group and --topic, or --file (--save writes one)", code=2)
    settings = load(paths={"warehouse": warehouse})
    try:
        if file is not None:
            state, notes = read_file(file), list[str]()
        else:
            default = settings.rules.allocate_message_queue_strategy
            state, notes = read_group(settings.paths.warehouse, str(group), str(topic), cluster, default)
        if client_version and not re.match(r"[vV]?\d+[._]\d+", client_version):
            raise ValueError(f"--client-version {client_version!r} is not a RocketMQ release such as 4.9.8")
        changes = Changes(
            remove_clients=tuple(remove_client or ()),
            add_clients=tuple(add_client or ()),
            twins=tuple(twin or ()),
            unsubscribe=tuple(unsubscribe or ()),
            remove_brokers=tuple(remove_broker or ()),
            add_brokers={
                name: _number("--add-broker", n) if n else None
                for name, _, n in (text.partition("=") for text in add_broker or ())
            },
            queues={name: _number("--queues", n) for name, n in map(_last_part, queues or ())},
            strategies=dict(map(_last_part, strategy or ())),
            consumer_idcs=tuple(consumer_idc or ()),
            virtual_nodes=virtual_nodes,
            client_version=client_version,
        )
        changed = change(state, changes)
        if save is not None:
            save_file(save, state)
        report = report_of(state, changed, notes)
    except (WarehouseError, UnknownGroupError) as error:
        fail(str(error))
    except ValueError as error:
        fail(str(error), code=2)
    if format_ == "json":
        write_json(report)
    elif format_ == "csv":
        print_rows(report["queues"], "csv")
    else:
        _print_for_people(report, is_changed=state != changed)


def _last_part(text: str) -> tuple[str, str]:
    """Return `name=value` as name and value; the name may have more equals signs, and may be absent."""
    name, _, value = text.rpartition("=")
    return name, value


def _number(flag: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{flag} {text!r} is not a number of queues")
    return int(text)
