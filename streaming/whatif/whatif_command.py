"""`balancewatch whatif`: its options, and how they become a state and changes to it."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.terminal.command import fail, load
from streaming.terminal.setting_options import Warehouse
from streaming.text.output import write_json_text
from streaming.warehouse.warehouse_error import WarehouseError
from streaming.whatif.live_group import read_group
from streaming.whatif.matrix import WhatIf, print_whatif
from streaming.whatif.sends import SlowBroker
from streaming.whatif.whatif import EXAMPLE, WhatIfError, read_file, save_file, to_json
from udfs.rocketmq.version import NEWEST, parse_client_version
from udfs.whatif.group import Changes, change
from udfs.whatif.slow_broker import Traffic


def _names(flag: str, text: str) -> Any:
    return typer.Option(flag, help=f"{text} Repeat for more.")


def whatif(
    group: Annotated[str | None, typer.Option("--group", help="Consumer group, read from the Delta tables.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="One of its topics.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Needed where several have the group.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A state in JSON, instead of the Delta tables.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the state to this file too, to edit it.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Print such a file and end.")] = False,
    add_client: Annotated[list[str] | None, _names("--add-client", "A ClientId that joins.")] = None,
    remove_client: Annotated[list[str] | None, _names("--remove-client", "A ClientId, address or host leaves.")] = None,
    twin: Annotated[list[str] | None, _names("--twin", "One more process with this ClientId.")] = None,
    unsubscribe: Annotated[
        list[str] | None, _names("--unsubscribe", "A ClientId that stays without subscribing the topic.")
    ] = None,
    add_broker: Annotated[list[str] | None, _names("--add-broker", "NAME, or NAME=QUEUES.")] = None,
    remove_broker: Annotated[list[str] | None, _names("--remove-broker", "A broker whose queues go.")] = None,
    queues: Annotated[list[str] | None, _names("--queues", "readQueueNums: N a broker, or BROKER=N.")] = None,
    strategy: Annotated[list[str] | None, _names("--strategy", "NAME for all, or CLIENT_ID=NAME.")] = None,
    consumer_idc: Annotated[
        list[str] | None, _names("--consumer-idc", "MACHINE_ROOM: a room that is consumed.")
    ] = None,
    virtual_nodes: Annotated[int | None, typer.Option(help="CONSISTENT_HASH: replicas of a client.", min=0)] = None,
    client_version: Annotated[str | None, typer.Option(help="Release of all clients and of the producer.")] = None,
    slow_broker: Annotated[str | None, typer.Option(help="Show where sends go if this broker is slow.")] = None,
    latency_ms: Annotated[int, typer.Option(help="How slow it answers, ms.", min=0)] = 1000,
    rate: Annotated[int, typer.Option(help="The producer's sends a second.", min=1)] = 100,
    seconds: Annotated[int, typer.Option(help="For how long it sends.", min=1)] = 60,
    format_: Annotated[str, typer.Option("--format", help="table, json (everything) or csv (queues).")] = "table",
    warehouse: Warehouse = None,
) -> None:
    """Try a change on paper: who takes which queue before and after, what starves, moves or doubles, and why.

    Nothing is changed anywhere. The state is one topic of one group, from the Delta tables (no JVM is started) or
    from a file; without a change it is shown as it is.

    Example: balancewatch whatif --group billing --topic orders --add-client 10.0.0.9@7 --add-broker broker-c=8

    Example: balancewatch whatif --group billing --topic orders --twin 10.0.0.5@7

    Example: balancewatch whatif --group billing --topic orders --strategy 10.0.0.5@7=AVG_BY_CIRCLE --format json

    Example: balancewatch whatif --group billing --topic orders --slow-broker broker-a --latency-ms 800

    Example: balancewatch whatif --example > state.json; balancewatch whatif --file state.json --queues 16
    """

    if example:
        write_json_text(to_json(EXAMPLE))
        return
    if format_ not in ("table", "json", "csv"):
        fail(f"--format {format_!r}: choose table, json or csv", code=2)
    if (file is None) == (group is None or topic is None) or (file is not None and (group or topic)):
        fail("give either --group and --topic, or --file (`balancewatch whatif --example` prints one)", code=2)
    settings = load(paths={"warehouse": warehouse})
    try:
        release = _release(client_version)
        if file is not None:
            state, notes = read_file(file), tuple[str, ...]()
        else:
            default = settings.rules.allocate_message_queue_strategy
            live = read_group(settings.paths.warehouse, str(group), str(topic), cluster, default)
            state, notes = live.group, live.notes
        changes = Changes(
            remove_clients=tuple(remove_client or ()),
            add_clients=tuple(add_client or ()),
            twins=tuple(twin or ()),
            unsubscribe=tuple(unsubscribe or ()),
            remove_brokers=tuple(remove_broker or ()),
            add_brokers={name: _number("--add-broker", n) if n else None for name, n in map(_broker, add_broker or ())},
            queues=dict(_queues(text) for text in queues or ()),
            strategies=dict(_strategy(text) for text in strategy or ()),
            consumer_idcs=tuple(consumer_idc or ()),
            virtual_nodes=virtual_nodes,
            client_version=release,
        )
        changed = change(state, changes)
        traffic = Traffic(client_version=release or NEWEST, sends_per_second=rate, seconds=seconds)
        slow = SlowBroker(changed, slow_broker, latency_ms, traffic) if slow_broker else None
        if save is not None:
            save_file(save, state)
        print_whatif(WhatIf(state, changed, notes, slow), format_)  # type: ignore[arg-type]  # checked above
    except WarehouseError as error:
        fail(str(error))
    except (WhatIfError, ValueError) as error:
        fail(str(error), code=2)


def _release(text: str | None) -> tuple[int, int, int] | None:

    if text and not re.match(r"[vV]?\d+[._]\d+", text):
        raise ValueError(f"--client-version {text!r} is not a release such as 4.9.8")
    return parse_client_version(text) if text else None


def _broker(text: str) -> tuple[str, str]:
    name, _, number = text.partition("=")
    return name, number


def _queues(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    return name, _number("--queues", number)


def _strategy(text: str) -> tuple[str, str]:
    client_id, _, name = text.rpartition("=")
    return client_id, name


def _number(flag: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{flag} {text!r} is not a number of queues")
    return int(text)
