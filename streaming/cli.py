"""The command line. A command's module is imported when the command is called.

Exit codes are those of EXIT_CODES. Only this table imports inside a function: Spark takes half a second to import,
Great Expectations more than one.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import typer
from typer.main import get_command

from streaming.terminal.command_line import VisibleCommands, log_flags, readable


class Place(NamedTuple):
    """A command's module of streaming, its summary in help and README, and subcommands that other rooms define."""

    module: str
    summary: str
    below: "dict[str, Place]" = {}  # noqa: RUF012  # a tuple's default, never changed


GROUPS = {
    "inspect": {
        "status": Place(
            "history.status_command", "Print what fires, whether the data are fresh, and whether deliveries work."
        ),
        "alerts": Place(
            "history.alerts_command",
            "List open incidents, or transitions of the past; follow new ones.",
            {
                "rules": Place(
                    "check.check_command",
                    "Explain an alert: when it fires and ends, who receives it, what inhibits it, which keys decide.",
                )
            },
        ),
        "explain": Place(
            "history.explain_command",
            "Print the history of an incident: steps, members, queues, causes, effects and notifications.",
        ),
        "owner": Place(
            "history.owner_command",
            "Print the planned owner and the actual consumers of a queue, now or at a given time.",
        ),
        "clusters": Place("history.lists", "List the clusters in their newest state."),
        "groups": Place("history.lists", "List the consumer groups in their newest state, the worst first."),
        "brokers": Place("history.lists", "List the brokers in their newest state, the worst first."),
        "assignments": Place(
            "history.questions", "List queue assignments: planned owner, actual consumers and verdict."
        ),
        "members": Place("history.questions", "List changes in group membership, as each broker reports them."),
        "faults": Place("history.questions", "List FaultItems: which producer avoids which broker, and until when."),
        "deliveries": Place("history.questions", "List notifications: receiver, outcome and reason."),
    },
    "act": {
        "ack": Place("relay.commands", "Acknowledge an incident; PagerDuty stops escalating."),
        "silence": Place("relay.commands", "Add, list and end silences."),
        "oncall": Place("relay.oncall_command", "Send a marked test alert, and its end, to a receiver."),
        "forget": Place(
            "service.forget_command",
            "Resolve the alerts of a cluster, broker, group or collector that is decommissioned or renamed.",
        ),
    },
    "run": {
        "check": Place(
            "check.check_command",
            "Validate the settings and print the rules in force; --connect tries all connections.",
        ),
        "collect": Place(
            "collector.collect_command",
            "Poll a RocketMQ cluster through its admin API and publish the results to Kafka.",
        ),
        "run": Place(
            "service.run_command", "Run the streaming query: events from Kafka to verdicts, alerts and notifications."
        ),
        "relay": Place("service.relay_command", "Send notifications in a process separate from `run`."),
        "board": Place("board.board_command", "Serve the board."),
        "mcp": Place("assistant.mcp_command", "Serve read-only tools for AI assistants (MCP)."),
        "canary": Place("relay.commands", "Print how long canary alerts took from injection to delivery."),
    },
    "try": {
        "demo": Place("service.demo", "Run a demo: embedded Kafka, simulated cluster, streaming query and board."),
        "simulate": Place(
            "simulator.simulate_command",
            "Publish a simulated RocketMQ cluster to Kafka, with configurable monitoring faults.",
        ),
        "kafka": Place("kafka_io.kafka_command", "Run an embedded Kafka with the five topics."),
        "whatif": Place(
            "whatif.whatif_command", "Compute the effect of a change on a group: which client gets which queue."
        ),
        "replay": Place(
            "replay.replay_command",
            "Backtest changed rules on recorded events: which pages would be new, unchanged or gone.",
        ),
    },
    "data": {
        "sql": Place("history.sql_command", "Query the tables in read-only SQL."),
        "quality": Place("quality.quality_command", "Print which data expectations fail in the newest samples."),
        "quarantine": Place("quality.quarantine_command", "List, show and replay messages that broke their contract."),
        "maintain": Place("maintenance.maintain_command", "Compact the tables and delete expired rows and files."),
    },
}
"""Group to its commands, in the order of the help and of README's table."""

COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}

COMPLETION = "_BALANCEWATCH_COMPLETE"
"""The variable by which a shell asks for completions."""

LOGS = "streaming.logs.logs"

RUN_PACKAGES = {"pyspark", "py4j", "pandas", "great_expectations", "simpy"}
"""Packages of the extra [run], by the names that they are imported by."""

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed, or no such incident, queue, group or table; 2 wrong usage; `status -h` has its own."
)

HELP_WIDTH = 120
"""Characters; help uses the terminal's width up to this."""

SERVING = {"demo", "run", "kafka", "collect", "simulate", "relay", "board", "mcp", "--follow"}
"""Commands and options that end with 0 on SIGINT and SIGTERM, also during imports (stop_on_signals is called later)."""


class LazyCommands(Mapping[str, Any]):
    """Click's commands by name, each imported at its first use."""

    def __init__(self, places: dict[str, Place]) -> None:
        self.places = places
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            place = self.places[name]
            found = getattr(import_module(f"streaming.{place.module}"), name)
            if not isinstance(found, typer.Typer):
                options: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}
                if place.below:
                    options |= {"cls": Commands, "invoke_without_command": True}
                    options["subcommand_metavar"] = "[COMMAND [ARGS]...]"
                command, found = found, typer.Typer(**options)
                (found.callback if place.below else found.command)()(command)
            made: Any = get_command(found)
            if place.below:
                made.commands = LazyCommands(place.below)
            made.name = name
            self._known[name] = readable(made)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class Commands(VisibleCommands):
    """A group of commands; its help imports none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = LazyCommands(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return commands and options; no command is imported for it."""
        places, self.commands = self.commands.places, {}
        options = super().shell_complete(ctx, incomplete)
        named = [name for name in places if name.startswith(incomplete)]
        return [SimpleNamespace(value=name, help=places[name].summary, type="plain") for name in named] + options

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        places = self.commands.places
        groups = GROUPS if places is COMMANDS else {"commands": places}
        for title, commands in groups.items():
            with formatter.section(title.capitalize()):
                formatter.write_dl([(name, place.summary) for name, place in commands.items()])


app = typer.Typer(
    cls=Commands,
    help="Report which RocketMQ queues no client consumes, since when, why, and how to fix it.",
    epilog=EXIT_CODES,
    context_settings={"max_content_width": HELP_WIDTH, "help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback()(log_flags)


def main() -> NoReturn:
    """Run the command and end the process. Completion prints no error, which would disturb the line that is typed."""
    if COMPLETION in os.environ:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
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


def leave(code: int) -> NoReturn:
    """Exit without the interpreter's teardown.

    During it Arrow's native threads sometimes abort under load, and DuckDB lists objects of daemon threads on stderr.
    """
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _exit_code() -> int:
    """Run the command and return its exit code."""
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in RUN_PACKAGES:
            import_module(LOGS).say_failure(
                f"this command needs the package {error.name}; install it with pip install 'balancewatch[run]'"
            )
        else:
            import_module(LOGS).say_crash(error)
        return 1
    return 0


if __name__ == "__main__":
    main()
