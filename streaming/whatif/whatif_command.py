"""`balancewatch whatif`: options, parsed into a state and changes to it."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.history.query_options import check_format
from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.warehouse.warehouse_error import WarehouseError
from streaming.whatif.report import print_whatif
from streaming.whatif.whatif import UnknownGroupError, read_file, read_group, save_file
from udfs.rocketmq.version import parse_client_version
from udfs.whatif.group import Changes, change


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
        str, typer.Option("--format", help="table, json (everything) or csv (queues).", metavar="FORMAT")
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
    form = check_format(format_, ("table", "json", "csv"))
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
            client_version=parse_client_version(client_version) if client_version else None,
        )
        changed = change(state, changes)
        if save is not None:
            save_file(save, state)
        print_whatif(state, changed, notes, form)
    except (WarehouseError, UnknownGroupError) as error:
        fail(str(error))
    except ValueError as error:
        fail(str(error), code=2)


def _last_part(text: str) -> tuple[str, str]:
    """Return `name=value` as name and value; the name may have more equals signs, and may be absent."""
    name, _, value = text.rpartition("=")
    return name, value


def _number(flag: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{flag} {text!r} is not a number of queues")
    return int(text)
