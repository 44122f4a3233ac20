"""What a score says: by kind and cause, and by the value of each dimension that was not as in the scenario's file."""

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tests.lab.score.match import Key, Tally
from tests.lab.score.run import DAY_MS, Run, Score

MOST_LISTED = 10
"""Of what was missed and what was wrong, a kind."""

Row = Mapping[str, Any]


def report_of(todo: Sequence[Run], scores: Sequence[Score]) -> dict[str, Any]:
    """All that is reported, as JSON takes it."""
    tallies: dict[Key, Tally] = {}
    false_pages: Counter[str] = Counter()
    for run, one in zip(todo, scores, strict=True):
        false_pages.update(f"{run}: {what}" for what in one.false_pages)
        for key, tally in one.tallies.items():
            tallies.setdefault(key, Tally()).add(tally)
    return {
        "healthy_days": round(sum(one.healthy_ms for one in scores) / DAY_MS, 2),
        "false_pages": dict(false_pages),
        "kinds": kinds_of(tallies),
        "dimensions": _dimensions(todo, scores),
    }


def kinds_of(tallies: Mapping[Key, Tally]) -> list[dict[str, Any]]:
    """A row a kind and cause: counts, delays, and what was missed and wrong."""
    return [
        {"kind": kind, "cause": cause, **_figures_of(tally), "missed": tally.missed, "wrong": tally.wrong}
        for (kind, cause), tally in sorted(tallies.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]


def _figures_of(tally: Tally) -> dict[str, Any]:
    """Counts of facts and claims; seconds, median and longest, from onset to alert and from end to resolved.

    Recall: of the facts required, those detected and resolved in time. None without any.
    """
    delays = [delay / 1000 for delay, _ in tally.delays_ms]
    recovery = [ms / 1000 for ms in tally.recovery_ms]
    return {
        **{name: value for name, value in vars(tally).items() if isinstance(value, int)},
        "recall": tally.reported / tally.required if tally.required else None,
        "precision": tally.right / tally.claims if tally.claims else None,
        "delay_s": [statistics.median(delays), max(delays)] if delays else [],
        "bound_s": [max(bound for _, bound in tally.delays_ms) / 1000] if delays else [],
        "recovery_s": [statistics.median(recovery), max(recovery)] if recovery else [],
    }


def _dimensions(todo: Sequence[Run], scores: Sequence[Score]) -> list[dict[str, Any]]:
    """A row a dimension and value. A run counts under each of its values, so what is wrong shows under all of them."""
    found: dict[tuple[str, str], tuple[Tally, Counter[str]]] = {}
    for run, one in zip(todo, scores, strict=True):
        labels = run.labels()
        for place in labels.items() if len(labels) > 1 else [("as in the file", "")]:
            total, counts = found.setdefault(place, (Tally(), Counter()))
            for tally in one.tallies.values():
                total.add(tally)
            counts.update(runs=1, false_pages=len(one.false_pages), healthy_ms=one.healthy_ms)
    return [
        {
            "dimension": name,
            "value": value,
            "runs": counts["runs"],
            **_figures_of(total),
            "false_pages": counts["false_pages"],
            "healthy_days": round(counts["healthy_ms"] / DAY_MS, 2),
        }
        for (name, value), (total, counts) in sorted(found.items(), key=lambda item: _order(*item[0]))
    ]


def _order(name: str, value: str) -> tuple[str, float, str]:
    """By the number in the value, where there is one."""
    number = re.search(r"[-+]?\d+(\.\d+)?", value)
    return name, float(number[0]) if number else 0.0, value


def print_report(report: Row, console: Console) -> None:
    """Both tables, and what was wrong."""
    title = f"{report['seeds']} seeds a scenario, {report['seconds']:.0f} s; delays in seconds, median and longest"
    kinds = _table(title, ("what",), FIGURES)
    for row in report["kinds"]:
        kinds.add_row(name_of(row), *cells(row))
    console.print(kinds)
    figures = ("runs", *FIGURES[:-3], "pages", "days")
    dimensions = _table("by dimension; false pages, and healthy days", ("dimension", "value"), figures)
    for row in report["dimensions"]:
        own = (str(row["runs"]), *cells(row)[:-3], str(row["false_pages"]), f"{row['healthy_days']:.1f}")
        dimensions.add_row(row["dimension"], row["value"], *own)
    console.print(dimensions)
    print(f"pages in {report['healthy_days']} healthy days: {sum(report['false_pages'].values())}")
    for what, count in report["false_pages"].items():
        print(f"  {count} x {what}")
    for row in report["kinds"]:
        for name in ("missed", "wrong"):
            for one in row[name][:MOST_LISTED]:
                print(f"{name}: {one}")
            if len(row[name]) > MOST_LISTED:
                print(f"{name}: {len(row[name]) - MOST_LISTED} more of {name_of(row)}")


def _table(title: str, names: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in names:
        table.add_column(column, overflow="fold")
    for column in figures:
        table.add_column(column, justify="right", overflow="fold")
    return table


FIGURES = (
    "facts", "in time", "resolved", "recall", "claims", "precision", "early", "late", "endless", "alert", "bound",
    "end",
)  # fmt: skip
"""Columns: required facts, those whose alert fired in time, of the ended ones those that resolved in time; claims that
began too early, resolved too late, never ended; delays in seconds, median and longest, from onset to alert
and from end to resolved."""


def name_of(row: Row) -> str:
    return ", ".join(name for name in (row["kind"], row["cause"]) if name)


def cells(row: Row) -> tuple[str, ...]:
    """The cells of `FIGURES`."""
    resolved = f"{row['resolved']}/{row['ended']}" if row["ended"] else "-"
    facts = (str(row["required"]), str(row["in_time"]), resolved) if row["required"] else ("", "", "")
    wrong = (str(row[name] or "") for name in ("early", "late", "endless"))
    delays = (", ".join(f"{seconds:.0f}" for seconds in row[name]) for name in ("delay_s", "bound_s", "recovery_s"))
    return *facts, _share(row["recall"]), str(row["claims"]), _share(row["precision"]), *wrong, *delays


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
