"""The command line: a command's module is imported when the command is called.

Each command loads the settings, does one thing, and ends with 0 done, 1 failed, 2 wrong usage. This table is the one
place that imports inside a function: Spark takes half a second to import, Great Expectations more than one.
"""

import signal
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import typer
from typer.main import get_command

from streaming.store.light_arrow import load_arrow
from streaming.system.leaving import leave
from streaming.terminal.log_flags import log_flags
from streaming.terminal.visible_commands import VisibleCommands


class Place(NamedTuple):
    """The module that has a command under its name, the first sentence of the command's help, and the commands below
    it that other rooms have: it works without them, too.
    """

    module: str
    summary: str
    below: "dict[str, Place]" = {}  # noqa: RUF012  # of a tuple, and nobody changes it


COMMANDS = {
    "demo": Place(
        "streaming.service.demo_command",
        "Show it at work: embedded Kafka, a modelled cluster, the stream, the board, each alert as it comes and goes.",
    ),
    "run": Place(
        "streaming.service.run_command",
        "Run the streaming query, events from Kafka, verdicts and alerts to Delta, and tell people [oncall].",
    ),
    "kafka": Place(
        "streaming.kafka_io.kafka_command",
        "Run the embedded Kafka in the foreground, with the five topics, until Ctrl-C or SIGTERM.",
    ),
    "collect": Place(
        "streaming.collector.collect_command",
        "Read a RocketMQ cluster through its own admin client and publish what each broker says to Kafka.",
    ),
    "simulate": Place(
        "streaming.simulator.simulate_command",
        "Publish a modelled RocketMQ cluster to Kafka: seeded, in virtual time, at any speed, watched in any way.",
    ),
    "alerts": Place(
        "streaming.history.questions",
        "Print the alerts' transitions from Delta, oldest first; no JVM is started.",
        {
            "rules": Place(
                "streaming.check.rules_command",
                "Say what an alert would do: when it fires and ends, whom it reaches, what keeps it quiet, which keys "
                "decide.",
            )
        },
    ),
    "faults": Place(
        "streaming.history.questions",
        "Print which producer avoids which broker, since when and until when: FaultItems from Delta, oldest first.",
    ),
    "assignments": Place(
        "streaming.history.questions",
        "Print who is meant to consume each queue, who does, and the verdict: each change from Delta, oldest first.",
    ),
    "owner": Place(
        "streaming.history.owner_command",
        "Say in one line who was meant to consume a queue, who did, and what is wrong with it; now, or --at a moment.",
    ),
    "members": Place(
        "streaming.history.questions",
        "Print who joined, changed in, left or expired from a consumer group in each broker's view, oldest first.",
    ),
    "deliveries": Place(
        "streaming.history.questions",
        "Print the delivery log with the cluster, group, topic and broker of each incident, oldest first.",
    ),
    "explain": Place(
        "streaming.history.explain_command",
        "Tell the story of an incident: its steps, members and queues that moved, causes, effects, who was told.",
    ),
    "sql": Place(
        "streaming.history.sql_command",
        "Ask the tables by DuckDB's SQL: one SELECT, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN.",
    ),
    "whatif": Place(
        "streaming.whatif.whatif_command",
        "Try a change on paper: who takes which queue before and after, what starves, moves or doubles, and why.",
    ),
    "relay": Place(
        "streaming.service.relay_command",
        "Tell people: every alert to the receivers its route names, until each has it.",
    ),
    "canary": Place(
        "streaming.oncall.canary_command",
        "Print the service's own figure: seconds from a modelled twin's injection to its delivery, from Delta.",
    ),
    "ack": Place("streaming.oncall.ack_command", "Say that somebody is at an incident."),
    "forget": Place(
        "streaming.service.forget_command",
        "End what is open of a cluster, a broker or a consumer group that is gone for good: decommissioned or renamed.",
    ),
    "replay": Place(
        "streaming.replay.replay_command",
        "Work through recorded events again, under changed rules: which pages would have been sent, and which were.",
    ),
    "check": Place(
        "streaming.check.check_command",
        "Check the settings: every one is validated, and the rules in force are printed with who set each.",
    ),
    "board": Place(
        "streaming.board.board_command",
        "Serve the board: what fires, why, and what can be seen; until Ctrl-C or SIGTERM.",
    ),
    "maintain": Place(
        "streaming.maintenance.maintain_command",
        "Keep the tables small and quick to open, while `run` writes and everyone reads.",
    ),
    "silence": Place("streaming.oncall.silence_command", "Keep alerts quiet for a while."),
    "quality": Place(
        "streaming.quality.quality_command",
        "Whether the events are what they should be, by the newest samples that `run` validated.",
    ),
    "quarantine": Place(
        "streaming.quality.quarantine_command",
        "Messages that broke their contract: where they were, why they were refused, and how they stand.",
    ),
}
"""In the order in which help lists them."""

LOGS = "streaming.logs.logs"

SERVING = {"demo", "run", "kafka", "collect", "simulate", "relay", "board"}
"""Which end with 0 when they are asked to, also while their modules are imported (stop_on_signals comes later)."""

QUESTIONS = ("alerts", "faults", "assignments", "owner", "members", "deliveries", "explain")
"""Answered from the tables in this process, in less time than some imports take; `sql` has one of its own."""


class LazyCommands(MutableMapping[str, Any]):
    """Click's commands by name, each imported when it is taken."""

    def __init__(self, places: dict[str, Place]) -> None:
        self.places = places
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            place = self.places[name]
            found = getattr(import_module(place.module), name)
            if place.below:
                command, found = (
                    found,
                    typer.Typer(
                        cls=Commands,
                        invoke_without_command=True,
                        subcommand_metavar="[COMMAND [ARGS]...]",
                        add_completion=False,
                        rich_markup_mode=None,
                    ),
                )
                found.callback()(command)
            elif not isinstance(found, typer.Typer):
                command, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
                found.command()(command)
            made: Any = get_command(found)
            if place.below:
                made.commands = LazyCommands(place.below)
            made.name = name
            self._known[name] = made
        return self._known[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._known[name] = command

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class Commands(VisibleCommands):
    """A group of commands, without more said that of all of them; its help imports none."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = LazyCommands(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in self.commands.places.items()])


app = typer.Typer(
    cls=Commands,
    help="Says which RocketMQ queues nobody consumes, since when, why, and the one line that fixes it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback()(log_flags)


def main() -> NoReturn:
    """The `balancewatch` command. However it ends, the interpreter is not taken down: see streaming.system.leaving."""
    if SERVING & {*sys.argv[1:]}:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: leave(0))
    code = _exit_code()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or 1
    except OSError as error:
        import_module(LOGS).say_failure(f"stdout: {error.strerror}")
        code = code or 1
    leave(code)


def _exit_code() -> int:
    """Of the command, once it is done."""
    if sys.argv[1:2] and sys.argv[1] in QUESTIONS and sys.argv[2:3] != ["rules"]:
        load_arrow()
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        import_module(LOGS).say_crash(error)
        return 1
    return 0


if __name__ == "__main__":
    main()
