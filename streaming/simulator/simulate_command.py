"""`balancewatch simulate`: options of the simulated cluster and of its monitoring."""

from typing import Annotated

import typer

from streaming.simulator import scenario_names
from streaming.simulator.publish import SimulateError, Watching, run_simulation
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.setting_options import BootstrapServers
from streaming.text.output import say


def simulate(
    scenario: Annotated[str, typer.Argument(help="Name of a scenario, or a TOML file.", metavar="SCENARIO")] = "demo",
    list_: Annotated[bool, typer.Option("--list", help="Print the names of the scenarios.")] = False,
    bootstrap_servers: BootstrapServers = None,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal events.", metavar="N")] = 1,
    speed: Annotated[
        str, typer.Option(help="1 is real time, 20 is 20 times faster, max is without pauses.", metavar="N|max")
    ] = "max",
    seconds: Annotated[
        float | None,
        typer.Option(help="Virtual seconds to simulate. Default: the scenario's duration.", min=1, metavar="N"),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Virtual start, ISO 8601. Default: the run ends now.", metavar="TIME")
    ] = None,
    view: Annotated[
        str,
        typer.Option(
            help="model (all events immediately), agents (the same without clock events) or collector (poll rounds). "
            "Default: the scenario's.",
            metavar="VIEW",
        ),
    ] = "",
    interval: Annotated[
        float | None, typer.Option(help="Poll interval in seconds.", min=1, max=600, metavar="N")
    ] = None,
    missed_rounds: Annotated[
        float, typer.Option(help="Share of poll rounds that one broker does not answer.", min=0, max=1, metavar="SHARE")
    ] = 0.0,
    lost_answers: Annotated[
        float, typer.Option(help="Share of requests to clients that time out.", min=0, max=1, metavar="SHARE")
    ] = 0.0,
    mute_clients: Annotated[
        float, typer.Option(help="Share of consumers that answer no request.", min=0, max=1, metavar="SHARE")
    ] = 0.0,
    listed_only: Annotated[
        float, typer.Option(help="Share of clients whose heartbeats are not published.", min=0, max=1, metavar="SHARE")
    ] = 0.0,
    skew: Annotated[
        str | None,
        typer.Option(help="A wrong clock: broker:-95 is 95 s behind; or client, collector.", metavar="WHO:SECONDS"),
    ] = None,
    lag: Annotated[
        float, typer.Option(help="Seconds until events of agents reach Kafka.", min=0, max=600, metavar="N")
    ] = 0.0,
    beside: Annotated[
        str,
        typer.Option(
            help='Second group: hung, suspended, slow, or "rollout PODS one_by_one|quarters|surge stable|new|groups".',
            metavar="GROUP",
        ),
    ] = "",
) -> None:
    """Publish a simulated RocketMQ cluster to Kafka, with configurable monitoring faults.

    Events are seeded and carry virtual time, at any speed.

    Example: balancewatch simulate twins --bootstrap-servers localhost:9092

    Example: balancewatch simulate slow_broker --speed 20 --seed 7

    Example: balancewatch simulate healthy --view collector --interval 30 --missed-rounds 0.4 --beside hung
    """

    if list_:
        say("\n".join(scenario_names()))
        return
    settings = load(kafka={"bootstrap_servers": bootstrap_servers})
    needs_kafka(settings)
    watching = Watching(view, interval, missed_rounds, lost_answers, mute_clients, listed_only, skew, lag, beside)
    stop = stop_on_signals()
    try:
        run_or_exit(
            run_simulation,
            settings,
            stop,
            scenario=scenario,
            seed=seed,
            speed=speed,
            seconds=seconds,
            start=start,
            watching=watching,
            ending=stop,
        )
    except SimulateError as error:
        fail(str(error), code=2)
