"""`balancewatch collect`: poll a RocketMQ cluster and publish the results to Kafka."""

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
        list[str] | None, typer.Option("--group", help="Consumer group to read; repeatable. Default: all.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", help="Topic to read; repeatable. Default: all.")] = None,
    interval: Annotated[float | None, typer.Option(help="Poll interval in seconds.", min=0.1)] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster name in the events. Default: RocketMQ's name.")] = None,
    probe: Annotated[
        bool | None,
        typer.Option(
            "--probe", help="Also send a small message to each broker in every poll round and publish its latency."
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Stop after this number of poll rounds.", min=1)] = None,
) -> None:
    """Poll a RocketMQ cluster through its admin API and publish the results to Kafka.

    Reads only, except with --probe.

    Example: balancewatch collect --name-server 10.0.0.5:9876 --bootstrap-servers kafka:9092 --group billing
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
