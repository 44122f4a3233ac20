"""`balancewatch check`: validate the settings and print the rules in force."""

from collections.abc import Iterator
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from conf.settings import Settings, SettingsError
from streaming.history.query_options import check_format
from streaming.queries.rulebook import rulebook
from streaming.relay.mutes import Mute, make_mutes
from streaming.relay.receivers import make_receivers
from streaming.terminal.command import fail, load
from streaming.terminal.printing import Layout, print_table
from streaming.terminal.setting_options import Warehouse
from streaming.text.console import VisibleConsole
from streaming.text.output import write_json
from streaming.text.times import span_text, time_text, wall_ms
from udfs.alerts.pattern import describe_matchers
from udfs.alerts.rulebook import Rulebook
from udfs.alerts.rules import OF_ALL

FLOORS = {
    "channel_expired_ms": (30_000, "clients send a heartbeat every 30 s"),
    "pull_silence_ms": (20_000, "an idle healthy queue is pulled every 15 to 20 s"),
    "settle_ms": (20_000, "clients rebalance every 20 s"),
    "heartbeat_late_ms": (30_000, "clients send a heartbeat every 30 s"),
    "consume_silence_ms": (5_000, "clients commit their offsets every 5 s"),
}
"""Key of the rules to the shortest useful value, and the interval it comes from."""


def floor_warnings(rulebook: Rulebook) -> Iterator[str]:
    """Yield a sentence for each threshold below its floor, of the rules and of each override."""
    found = [("rules", key, getattr(rulebook.base, key)) for key in FLOORS]
    for override in rulebook.overrides:
        found += [(f"override {override.name!r}", key, value) for key, value in override.changes() if key in FLOORS]
    for where, key, value in found:
        floor_ms, reason = FLOORS[key]
        if value < floor_ms:
            meant = f'; the unit is ms, write "{value}s" for seconds' if value < 1_000 else ""
            yield f"{where}: {key} = {value} is below {span_text(floor_ms)}, but {reason}{meant}"


RulesFile = Annotated[Path | None, typer.Option("--rules", help="Rules file [rules.file]", metavar="FILE")]
FormatName = Annotated[str, typer.Option("--format", help="table or json.", metavar="FORMAT")]


def check(rules_file: RulesFile = None, format_: FormatName = "table", warehouse: Warehouse = None) -> None:
    """Validate the settings and print the rules in force.

    Each rule is printed with its origin. Receivers' secrets are validated, too. Exit code 2: a setting is invalid. The
    command sends and writes nothing. `balancewatch alerts rules` explains a kind of alert under these settings.

    Example: balancewatch check

    Example: balancewatch check --rules stricter.toml --format json
    """
    form = check_format(format_, ("table", "json"))
    settings = load(paths={"warehouse": warehouse}, rules={"file": None if rules_file is None else str(rules_file)})
    answer = _in_force(settings)
    if form == "json":
        write_json(answer, default=str)
    else:
        _print(answer)


def _in_force(settings: Settings) -> dict[str, Any]:
    """Return the settings in force. Leaves with 2 where a receiver's secret is missing."""
    try:
        receivers = make_receivers(settings.oncall)
    except SettingsError as error:
        fail(str(error), code=2)
    for receiver in receivers.values():
        receiver.close()
    book = rulebook(settings)
    base = asdict(book.base)
    kinds = base.pop("kinds")
    own = {
        f"kinds.{kind}.{name}": value
        for kind, of_kind in kinds.items()
        for name, value in of_kind.items()
        if kind == OF_ALL or value != kinds[OF_ALL][name]
    }
    return {
        "files": [str(path) for path in settings.files() if path.is_file()],
        "keys": [
            {"key": f"rules.{name}", "value": value, "set_by": settings.origin_of(f"rules.{name}")}
            for name, value in {**base, **own}.items()
        ],
        "overrides": [
            {
                "name": one.name,
                "cluster": one.cluster,
                "consumer_group": one.consumer_group,
                "sets": dict(one.changes()),
            }
            for one in book.overrides
        ],
        "receivers": list(receivers),
        "routes": [route.name for route in settings.oncall.routes],
        "mutes": [describe_mute(mute, wall_ms()) for mute in make_mutes(settings.mutes)],
        "warnings": list(floor_warnings(book)),
    }


def describe_mute(mute: Mute, now_ms: int) -> dict[str, Any]:
    window = mute.next_window(now_ms)
    return {
        "name": mute.name,
        "matchers": describe_matchers(mute.matchers),
        "windows": mute.describe(),
        "is_open": window.is_active(now_ms),
        "from": time_text(window.starts_at_ms),
        "until": time_text(window.ends_at_ms),
    }


def _print(answer: dict[str, Any]) -> None:
    console = VisibleConsole()
    print_keys(answer["keys"])
    for override in answer["overrides"]:
        where = f"cluster {override['cluster']}, consumer_group {override['consumer_group']}"
        console.print(Text(f"override {override['name']!r}: {where}"))
        for key, value in override["sets"].items():
            console.print(Text(f"  {key} = {_describe(value)}"))
    console.print(Text(f"receivers: {', '.join(answer['receivers'])}; routes: {', '.join(answer['routes'])}"))
    for mute in answer["mutes"]:
        console.print(Text(f"mute {describe_window(mute)}"))
    for warning in answer["warnings"]:
        console.print(Text(f"warning: {warning}"))
    console.print(Text("The settings are valid."))


def describe_window(mute: dict[str, Any]) -> str:
    when = f"open until {mute['until']}" if mute["is_open"] else f"next from {mute['from']} until {mute['until']}"
    return f"{mute['name']!r} ({mute['matchers']}), {mute['windows']}: {when}"


def print_keys(keys: list[dict[str, Any]]) -> None:
    layout: Layout = {
        "key": itemgetter("key"),
        "value": lambda row: _describe(row["value"]),
        "set by": itemgetter("set_by"),
    }
    print_table(keys, layout)


def _describe(value: Any) -> str:
    """Return the value as in TOML; an empty severity means the rule's."""
    if isinstance(value, bool):
        return str(value).lower()
    return "the rule's" if value in (None, "") else str(value)
