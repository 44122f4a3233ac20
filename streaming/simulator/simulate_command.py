"""`balancewatch simulate`: options of the simulated cluster and of its monitoring."""

import threading
import time
from datetime import datetime
from typing import Annotated

import typer

from conf.settings import Settings
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics
from streaming.simulator.conditions import Conditions, ConditionsError, parse_skew, with_beside
from streaming.simulator.play import play
from streaming.simulator.scenario import ScenarioError, load_scenario, scenario_names
from streaming.simulator.watched import Watched
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, needs_kafka, run_or_exit
from streaming.terminal.setting_options import BootstrapServers
from streaming.text.console import VisibleConsole
from streaming.text.output import say, warn
from streaming.text.times import to_ms, wall_ms

ENDLESS_SECONDS = 900.0
"""Duration of an endless scenario at full speed, unless one is given."""


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
    stop = stop_on_signals()
    try:
        pace = _pace(speed)
        modelled = load_scenario(scenario)
        if beside:
            modelled = with_beside(modelled, beside)
        length = seconds or modelled.duration_seconds
        if length is None and pace is None:
            length = ENDLESS_SECONDS
        conditions = Conditions(
            view or modelled.view,  # type: ignore[arg-type]  # Conditions checks it
            modelled.clock_interval_ms if interval is None else round(interval * 1000),
            missed_rounds,
            lost_answers,
            mute_clients,
            listed_only,
            None if skew is None else parse_skew(skew),
            round(lag * 1000),
        )
        watched = Watched(modelled, seed, _start_ms(start, length), conditions)
    except (ScenarioError, ConditionsError) as error:
        fail(str(error), code=2)
    run_or_exit(_publish, settings, stop, watched, length, pace, ending=stop)


def _publish(
    settings: Settings, stop: threading.Event, watched: Watched, length: float | None, pace: float | None
) -> None:
    duration_ms = None if length is None else int(length * 1000)
    create_topics(settings.kafka)
    began, end = time.monotonic(), f" of {length:.0f}" if length else ""

    def show(count: int, event_time_ms: int) -> None:
        status.update(f"{(event_time_ms - watched.start_ms) / 1000:.0f}{end} virtual seconds, {count:,} events")

    with VisibleConsole(stderr=True).status("publishing") as status, Publisher(settings.kafka) as publisher:
        count = play(watched.said(duration_ms), publisher, speed=pace, stop=stop, on_progress=show)
    warn(f"published {count:,} events in {time.monotonic() - began:.1f} s")


def _pace(speed: str) -> float | None:
    if speed == "max":
        return None
    try:
        pace = float(speed)
    except ValueError:
        pace = 0.0
    if not 0 < pace < float("inf"):
        fail(f'--speed {speed!r}: give a number above 0, or "max"', code=2)
    return pace


def _start_ms(start: str | None, length: float | None) -> int:
    if start is None:
        return wall_ms() - int((length or 0) * 1000)
    try:
        return to_ms(datetime.fromisoformat(start))
    except ValueError:
        fail(f"--start {start!r}: give ISO 8601, like 2026-11-21T03:12:00Z", code=2)
