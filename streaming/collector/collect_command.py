"""`balancewatch collect`: a RocketMQ cluster, read round by round and told to Kafka."""

from typing import Annotated

import typer

from streaming.collector.collector import run_collector
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.setting_options import BootstrapServers


def collect(
    name_server: Annotated[
        str | None,
        typer.Option("--name-server", help="RocketMQ NameServer, host:port;host:port [collector.name_server]"),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Consumer group to read; repeat for more. All without it.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Topic to read; repeat for more. All without it.")
    ] = None,
    interval: Annotated[float | None, typer.Option(help="Seconds between the starts of two rounds.", min=0.1)] = None,
    cluster: Annotated[str | None, typer.Option(help="Name the events carry; RocketMQ's own without it.")] = None,
    probe: Annotated[
        bool | None,
        typer.Option("--probe", help="Send a small message to every broker each round and publish its latency."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="End after so many rounds.", min=1)] = None,
) -> None:
    """Read a RocketMQ cluster through its own admin client and publish what each broker says to Kafka.

    Example: balancewatch collect --name-server 10.0.0.5:9876 --bootstrap-servers kafka:9092 --group billing --probe
    """
    stop = stop_on_signals()
    settings = load(
        kafka={"bootstrap_servers": bootstrap_servers},
        collector={
            "name_server": name_server,
            "groups": group or None,
            "topics": topic or None,
            "interval_seconds": interval,
            "cluster": cluster,
            "probe": probe,
        },
    )
    needs_kafka(settings)
    if not settings.collector.name_server:
        fail("collector.name_server is empty; give --name-server HOST:PORT", code=2)
    run_or_exit(run_collector, settings, stop, rounds=rounds, ending=stop)
