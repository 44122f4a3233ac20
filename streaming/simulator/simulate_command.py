"""`balancewatch simulate`: its options, of which the second half say how the modelled cluster is watched."""

from typing import Annotated

import typer

from streaming.simulator import scenario_names
from streaming.simulator.simulate import SimulateError, Watching, run_simulation
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.setting_options import BootstrapServers
from streaming.text.output import say


def simulate(
    scenario: Annotated[str, typer.Argument(help="A scenario's name, or a TOML file.")] = "demo",
    list_: Annotated[bool, typer.Option("--list", help="Print the scenarios' names and end.")] = False,
    bootstrap_servers: BootstrapServers = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same events.")] = 1,
    speed: Annotated[
        str, typer.Option(help='1 is real time, 20 is 20 times as fast, "max" as fast as it goes.')
    ] = "max",
    seconds: Annotated[
        float | None, typer.Option(help="Virtual seconds to play; the scenario's own length without it.", min=1)
    ] = None,
    start: Annotated[str | None, typer.Option(help="Virtual start, ISO 8601; without it, so that it ends now.")] = None,
    view: Annotated[
        str,
        typer.Option(
            help="View: model (all events, at once), agents (the same without a clock) or collector (rounds). "
            "Default: the scenario's."
        ),
    ] = "",
    interval: Annotated[float | None, typer.Option(help="Seconds from round to round.", min=1, max=600)] = None,
    missed_rounds: Annotated[
        float, typer.Option(help="Share of the rounds that one broker does not answer.", min=0, max=1)
    ] = 0.0,
    lost_answers: Annotated[
        float, typer.Option(help="Share of a collector's questions to clients that time out.", min=0, max=1)
    ] = 0.0,
    mute_clients: Annotated[
        float, typer.Option(help="Share of the consumers that answer no question.", min=0, max=1)
    ] = 0.0,
    listed_only: Annotated[
        float, typer.Option(help="Share of the clients whose heartbeats brokers do not tell.", min=0, max=1)
    ] = 0.0,
    skew: Annotated[
        str | None, typer.Option(help='One wrong clock: "broker:-95" is 95 s behind; or client, collector.')
    ] = None,
    lag: Annotated[float, typer.Option(help="Seconds that agents' events need to Kafka.", min=0, max=600)] = 0.0,
    beside: Annotated[
        str,
        typer.Option(
            help='Another group: hung, suspended, slow, or "rollout PODS one_by_one|quarters|surge stable|new|groups".'
        ),
    ] = "",
) -> None:
    """Publish a modelled RocketMQ cluster to Kafka: seeded, in virtual time, at any speed, watched in any way.

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
