"""Shell completion: values of closed lists, and names and open incidents of the tables.

Names that a shell could read as more than a word are left out. An error or a slow store completes nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

import typer

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.store.current import NAMED_BY, read_names
from streaming.store.store import History
from udfs.alerts.rulebook import CANARY_CLUSTER

SECONDS = 0.5
"""Time that the tables have to answer."""

MOST = 100

_WORD = re.compile(r"[\w.%@:#-]+", re.ASCII)


def complete_choices(values: Sequence[str]) -> Callable[[str], list[str]]:
    """Return the completion of values with commas between them."""

    def complete(incomplete: str) -> list[str]:
        given, comma, _ = incomplete.rpartition(",")
        return [f"{given}{comma}{value}" for value in values if value not in given.split(",")]

    return complete


def complete_names(option: str) -> Callable[[typer.Context, str], list[str]]:
    """Return the completion of the tables' names for an option of store.current.NAMED_BY."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        def read() -> Iterator[str]:
            names = read_names(_open(context, *NAMED_BY[option]), option) - {CANARY_CLUSTER}
            yield from sorted(name for name in names if name.startswith(incomplete) and _WORD.fullmatch(name))

        return _in_time(read)

    return complete


CLUSTERS, GROUPS, TOPICS, BROKERS = map(complete_names, NAMED_BY)


def complete_incident(context: typer.Context, incomplete: str) -> list[Any]:
    """Return the open incidents, with kind and subject as help."""

    def read() -> Iterator[tuple[str, str]]:
        sql = (
            "SELECT incident_id, concat_ws(' ', state, kind, consumer_group, broker_name) AS about FROM incidents "
            "WHERE state <> 'RESOLVED' AND starts_with(incident_id, $text) ORDER BY 1"
        )
        for row in _open(context, ALERTS).rows(sql, {"text": incomplete}):
            if _WORD.fullmatch(row["incident_id"]):
                yield row["incident_id"], re.sub(r"[^\w.,%@# -]", "?", row["about"])

    return _in_time(read)


def complete_subject(kinds: Sequence[str]) -> Callable[[typer.Context, str], list[Any]]:
    """Return the completion of kinds and open incidents."""

    def complete(context: typer.Context, incomplete: str) -> list[Any]:
        return [*kinds, *complete_incident(context, incomplete)]

    return complete


def _open(context: typer.Context, *tables: Any) -> History:
    return History(Settings.load(paths=_given(context)).paths.warehouse, list(tables))


def _given(context: typer.Context) -> dict[str, Any]:
    return {"warehouse": place} if (place := context.params.get("warehouse")) else {}


def _in_time(read: Callable[[], Iterator[Any]]) -> list[Any]:
    """Return up to MOST values that `read` yields within SECONDS; none after an error."""
    found: list[Any] = []

    def work() -> None:
        with suppress(Exception):
            for _, value in zip(range(MOST), read(), strict=False):
                found.append(value)

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return list(found)
