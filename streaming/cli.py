"""The command line. Each command loads the settings, does one thing, and ends with 0 done, 1 failed, 2 wrong usage."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from streaming.board.board_command import board
from streaming.command import fail, guard, load, needs_kafka
from streaming.forget_command import forget
from streaming.history.alerts_command import alerts
from streaming.history.assignments_command import assignments
from streaming.history.check_command import check
from streaming.history.deliveries_command import deliveries
from streaming.history.explain_command import explain
from streaming.history.faults_command import faults
from streaming.history.light_arrow import load_arrow
from streaming.history.members_command import members
from streaming.history.owner_command import owner
from streaming.history.replay_command import replay
from streaming.history.sql_command import sql
from streaming.history.whatif_command import whatif
from streaming.log_flags import log_flags
from streaming.maintenance.maintain_command import maintain
from streaming.oncall.ack_command import ack
from streaming.oncall.canary_command import canary
from streaming.oncall.relay_command import relay
from streaming.oncall.silence_command import silence
from streaming.output import say
from streaming.quality.quality_command import quality
from streaming.quality.quarantine_command import quarantine
from streaming.run_command import run
from streaming.simulate_command import simulate
from streaming.stopping import stop_on_signals
from streaming.visible_commands import VisibleCommands

app = typer.Typer(
    cls=VisibleCommands,
    help="Says which RocketMQ queues nobody consumes, since when, why, and the one line that fixes it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback()(log_flags)

QUESTIONS = ("alerts", "faults", "assignments", "owner", "members", "deliveries", "explain")
"""Answered from the tables in this process, in less time than some imports take; `sql` has one of its own."""

BootstrapServers = Annotated[
    str | None, typer.Option("--bootstrap-servers", help="Kafka brokers, host:port,host:port [kafka.bootstrap_servers]")
]


@app.command()
def demo(
    seconds: Annotated[
        float | None, typer.Option(help="End after so many seconds of running; without it, Ctrl-C ends.", min=1)
    ] = None,
    scenario: Annotated[str, typer.Option(help="Scenario to play; see `balancewatch simulate --list`.")] = "demo",
    speed: Annotated[float, typer.Option(help="How much faster than life the past is played.", min=0.1)] = 15.0,
    data_dir: Annotated[
        Path,
        typer.Option(
            help="Folder for Kafka, tables and checkpoints: new, empty, or an earlier demo's, whose are deleted."
        ),
    ] = Path(".demo"),
    with_board: Annotated[bool, typer.Option("--board/--no-board", help="Serve the board, at a free port.")] = True,
) -> None:
    """Show it at work: embedded Kafka, a modelled cluster, the stream, the board, each alert as it comes and goes.

    Example: balancewatch demo --seconds 90
    """
    from streaming.demo import run_demo
    from streaming.demo_folder import DemoFolder, DemoFolderError
    from streaming.ingest.simulator import ScenarioError, load_scenario

    stop = stop_on_signals()
    settings = load()
    try:
        load_scenario(scenario)
    except ScenarioError as error:
        fail(str(error), code=2)
    try:
        folder = DemoFolder(data_dir)
    except DemoFolderError as error:
        fail(str(error), code=2)
    guard(
        run_demo,
        settings,
        stop,
        folder=folder,
        scenario=scenario,
        speed=speed,
        seconds=seconds,
        with_board=with_board,
        ending=stop,
    )


app.command()(run)


@app.command()
def kafka(
    port: Annotated[
        int | None, typer.Option(help="Port on the loopback; without it, a free one.", min=1, max=65535)
    ] = None,
    data_dir: Annotated[Path, typer.Option(help="Its data folder; kept for the next start.")] = Path(".kafka"),
) -> None:
    """Run the embedded Kafka in the foreground, with the five topics, until Ctrl-C or SIGTERM.

    Prints `bootstrap_servers=HOST:PORT` once it is ready.

    Example: balancewatch kafka --port 9092 --data-dir /var/lib/balancewatch/kafka
    """
    stop = stop_on_signals()
    from streaming.ingest.embedded_kafka import EmbeddedKafka, EmbeddedKafkaError
    from streaming.ingest.topics import create_topics

    settings = load()

    def work() -> None:
        broker = EmbeddedKafka(settings.paths.jars, data_dir, port)
        try:
            create_topics(
                settings.kafka.model_copy(update={"bootstrap_servers": broker.bootstrap_servers, "options": {}})
            )
            say(f"bootstrap_servers={broker.bootstrap_servers}", flush=True)
            while broker.is_alive() and not stop.wait(0.5):
                pass
            if not stop.is_set():
                raise EmbeddedKafkaError(f"Kafka ended by itself; see {broker.log}")
        finally:
            broker.stop()

    guard(work, ending=stop)


@app.command()
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
    from streaming.ingest.collector import run_collector

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
    guard(run_collector, settings, stop, rounds=rounds, ending=stop)


app.command()(simulate)
app.command()(alerts)
app.command()(faults)
app.command()(assignments)
app.command()(owner)
app.command()(members)
app.command()(deliveries)
app.command()(explain)
app.command()(sql)
app.command()(whatif)
app.command()(relay)
app.command()(canary)
app.command()(ack)
app.command()(forget)
app.add_typer(silence, name="silence")
app.command()(replay)
app.command()(check)
app.command()(board)
app.command()(maintain)
app.add_typer(quality, name="quality")
app.add_typer(quarantine, name="quarantine")


def main() -> None:
    """The `balancewatch` command.

    It leaves without the interpreter's teardown: under load Arrow's native threads abort there now and then, long
    after everything has been printed, and would turn a 0 into a SIGABRT.
    """
    code: int | str | None = 0
    if sys.argv[1:2] and sys.argv[1] in QUESTIONS:
        load_arrow()
    try:
        app()
    except SystemExit as end:
        code = end.code
    except Exception as error:
        from streaming.logs import say_crash

        say_crash(error)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    main()
