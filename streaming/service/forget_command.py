"""`balancewatch forget`: stop expecting data of a decommissioned cluster, broker, group or collector."""

from typing import Annotated

import typer

from streaming.kafka_io.publisher import PublishError
from streaming.service.forgetting import Decision, UnknownNameError, publish, read_effects, say_effects
from streaming.terminal.command import fail, load, needs_kafka
from streaming.terminal.setting_options import BootstrapServers, Warehouse
from streaming.text.output import say
from streaming.warehouse.warehouse_error import WarehouseError

MOST_CHARACTERS = 255


def forget(
    cluster: Annotated[str, typer.Option(help="RocketMQ cluster; without another option, all of it is forgotten.")],
    owner: Annotated[str, typer.Option(help="Person who decides.")],
    reason: Annotated[str, typer.Option(help="Reason.")],
    broker: Annotated[str | None, typer.Option(help="Only this broker.")] = None,
    group: Annotated[str | None, typer.Option(help="Only this consumer group.")] = None,
    collector: Annotated[str | None, typer.Option(help="Only this collector, named as in its alert.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be resolved; change nothing.")] = False,
    bootstrap_servers: BootstrapServers = None,
    warehouse: Warehouse = None,
) -> None:
    """Resolve all alerts of a decommissioned or renamed cluster, broker, consumer group or collector.

    New data starts it afresh.

    Example: balancewatch forget --cluster old --owner ada --reason "moved to new" --dry-run

    Example: balancewatch forget --cluster main --broker broker-c --owner ada --reason "decommissioned"

    Example: balancewatch forget --cluster main --collector pod-1/ns:9876 --owner ada --reason "replaced by pod-2"
    """

    parts = {"broker": broker, "group": group, "collector": collector}
    given = {kind: name for kind, name in parts.items() if name is not None}
    if len(given) > 1:
        fail(f"{' and '.join(f'--{kind}' for kind in given)}: give one of them", code=2)
    texts = {"cluster": cluster, "owner": owner, "reason": reason, **given}
    for flag, text in texts.items():
        if not text.strip() or len(text) > MOST_CHARACTERS:
            fail(f"--{flag} {text[:50]!r}: give 1 to {MOST_CHARACTERS} characters", code=2)
    settings = load(kafka={"bootstrap_servers": bootstrap_servers}, paths={"warehouse": warehouse})
    if not dry_run:
        needs_kafka(settings)
    kind, name = next(iter(given.items()), ("cluster", cluster))
    decision = Decision(cluster, kind, name, owner.strip(), reason.strip())
    try:
        effects = read_effects(settings.paths.warehouse, decision)
        if not dry_run:
            publish(settings.kafka, decision, effects)
    except (UnknownNameError, WarehouseError, PublishError) as error:
        fail(str(error))
    for line in say_effects(decision, effects, is_done=not dry_run):
        say(line)
