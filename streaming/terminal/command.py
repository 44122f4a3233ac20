"""Start and end of a command: load settings, report an error in one sentence, exit with 0, 1 or 2."""

import threading
from collections.abc import Callable, Sequence
from fnmatch import filter as matching
from typing import Any, NoReturn

import structlog
import typer

from conf.settings import Settings, SettingsError
from streaming.logs.logs import say_failure, set_up_logs
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import is_end_asked
from streaming.terminal.command_line import given_log_flags
from streaming.text.suggestions import describe_choices
from streaming.warehouse.table_store import StoreUnreachableError, reach


def load(
    *, logs_to_stderr: bool = True, on_refusal: Callable[[str, dict[str, Any]], None] | None = None, **flags: Any
) -> Settings:
    """Return the settings with the given flags. Leaves with 2 for an invalid one.

    A command with a flag for tables or checkpoints leaves with 1 where it cannot reach their store.

    Without `logs_to_stderr` only the reason of a failure is logged, and only as JSON. `on_refusal` is called with the
    reason and the flags before it leaves for an invalid setting.
    """
    given = {
        section: {key: value for key, value in keys.items() if value is not None}
        for section, keys in {"log": given_log_flags(), **flags}.items()
    }
    given = {section: keys for section, keys in given.items() if keys}
    try:
        settings = Settings.load(**given)
    except SettingsError as error:
        say_failure(str(error))
        if on_refusal is not None:
            on_refusal(str(error), given)
        raise typer.Exit(2) from None
    if "paths" in given:
        try:
            reach(settings.paths.warehouse)
            if "checkpoints" in given["paths"]:
                reach(settings.paths.checkpoints, "paths.checkpoints")
        except StoreUnreachableError as error:
            fail(str(error))
    if logs_to_stderr or settings.log.format == "json":
        set_up_logs(settings.log)
    return settings


def fail(reason: str, code: int = 1) -> NoReturn:
    """Print one sentence to stderr and leave with `code`."""
    say_failure(reason)
    raise typer.Exit(code)


def choose(flag: str, text: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the values that comma-separated names and globs select. Leaves with 2 for one that selects none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        fail(f"{flag} {text!r}: choose one of {', '.join(values)}", code=2)
    chosen: list[str] = []
    for name in names:
        found = matching(values, name)
        if not found:
            fail(f"{flag} {name[:50]!r}: {describe_choices(name, values)}", code=2)
        chosen += found
    return tuple(dict.fromkeys(chosen))


def needs_kafka(settings: Settings) -> None:
    if not settings.kafka.bootstrap_servers:
        fail(
            "kafka.bootstrap_servers is empty; give --bootstrap-servers HOST:PORT or set "
            "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS (`balancewatch kafka` starts one)",
            code=2,
        )


def run_or_exit(work: Any, *args: Any, ending: threading.Event | None = None, **kwargs: Any) -> None:
    """Run `work`; a BalancewatchError ends in one sentence and exit code 1.

    `ending` is set after SIGINT or SIGTERM: an error then is a consequence, and the exit code is 0.
    """
    try:
        work(*args, **kwargs)
    except Exception as error:
        if ending is not None and is_end_asked(ending):
            first_line = (str(error).splitlines() or [type(error).__name__])[0]
            structlog.get_logger().info("command ended by signal", reason=first_line[:300])
        elif isinstance(error, BalancewatchError):
            fail(str(error))
        else:
            raise
