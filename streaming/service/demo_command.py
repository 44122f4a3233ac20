"""`balancewatch demo`: the complete system on one machine, without settings."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.service.demo import run_demo
from streaming.service.demo_folder import DemoFolder, DemoFolderError
from streaming.simulator import ScenarioError, load_scenario
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import fail, load, run_or_exit


def demo(
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this number of seconds. Default: Ctrl-C.", min=1)
    ] = None,
    scenario: Annotated[str, typer.Option(help="Scenario to play; see `balancewatch simulate --list`.")] = "demo",
    speed: Annotated[float, typer.Option(help="Speed at which the past is replayed.", min=0.1)] = 15.0,
    data_dir: Annotated[
        Path,
        typer.Option(
            help="Folder for Kafka, tables and checkpoints: new, empty, or of an earlier demo, which is overwritten."
        ),
    ] = Path(".demo"),
    with_board: Annotated[bool, typer.Option("--board/--no-board", help="Serve the board on a free port.")] = True,
) -> None:
    """Run a demo: embedded Kafka, a simulated RocketMQ cluster, the streaming query, the board and live alerts.

    Example: balancewatch demo --seconds 90
    """
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
    run_or_exit(
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
