"""`balancewatch demo`: all of it at work on one machine, without a setting."""

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
