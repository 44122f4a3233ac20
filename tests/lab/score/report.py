"""What a score says: by kind and cause, and by the value of each dimension that was not as in the scenario's file."""

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


def report_of(todo: Sequence[Run], scores: Sequence[Score]) -> dict[str, Any]:
    """All that is told, as JSON takes it."""
    tallies: dict[Key, Tally] = {}
    false_pages: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    for run, one in zip(todo, scores, strict=True):
        pages[run.name] += one.pages
        false_pages.update(f"{run}: {what}" for what in one.false_pages)
        for key, tally in one.tallies.items():
            tallies.setdefault(key, Tally()).add(tally)
    return {
        "healthy_days": round(sum(one.healthy_ms for one in scores) / DAY_MS, 2),
        "false_pages": dict(false_pages),
        "pages": dict(sorted(pages.items())),
        "kinds": kinds_of(tallies),
        "dimensions": _dimensions(todo, scores),
    }


def kinds_of(tallies: Mapping[Key, Tally]) -> list[dict[str, Any]]:
    """A row a kind and cause: counts, delays, and what was missed and wrong."""
    kinds = []
    for (kind, cause), tally in sorted(tallies.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        figures = {"kind": kind, "cause": cause, **shares_of(tally), **delays_of(tally)}
        kinds.append({**figures, "missed": tally.missed, "wrong": tally.wrong})
    return kinds


def shares_of(tally: Tally) -> dict[str, Any]:
    """Counts of facts and claims. Recall: of the facts required, those detected and resolved in time."""
    return {
        "required": tally.required,
        "in_time": tally.in_time,
        "ended": tally.ended,
        "resolved": tally.resolved,
        "reported": tally.reported,
        "recall": tally.reported / tally.required if tally.required else None,
        "claims": tally.claims,
        "right": tally.right,
        "precision": tally.right / tally.claims if tally.claims else None,
        "early": tally.early,
        "late": tally.late,
        "endless": tally.endless,
    }


def delays_of(tally: Tally) -> dict[str, float | None]:
    """Seconds, median and longest, from onset to alert and from end to resolved; None without any."""
    delays = [delay for delay, _ in tally.delays_ms]
    return {
        "delay_p50_s": statistics.median(delays) / 1000 if delays else None,
        "delay_max_s": max(delays) / 1000 if delays else None,
        "bound_s": max(bound for _, bound in tally.delays_ms) / 1000 if delays else None,
        "recovery_p50_s": statistics.median(tally.recovery_ms) / 1000 if tally.recovery_ms else None,
        "recovery_max_s": max(tally.recovery_ms) / 1000 if tally.recovery_ms else None,
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
            **shares_of(total),
            "false_pages": counts["false_pages"],
            "healthy_days": round(counts["healthy_ms"] / DAY_MS, 2),
        }
        for (name, value), (total, counts) in sorted(found.items(), key=lambda item: _order(*item[0]))
    ]


def _order(name: str, value: str) -> tuple[str, int, float, str]:
    """By the number in the value, where there is one."""
    number = "".join(sign for sign in value if sign in "+-.0123456789")
    try:
        return name, 0, float(number), value
    except ValueError:
        return name, 1, 0.0, value


def print_report(report: dict[str, Any], console: Console) -> None:
    """Both tables, and what was wrong."""
    console.print(_table_of_kinds(report))
    console.print(_table_of_dimensions(report))
    print(f"pages in {report['healthy_days']} healthy days: {sum(report['false_pages'].values())}")
    for what, count in report["false_pages"].items():
        print(f"  {count} x {what}")
    for row in report["kinds"]:
        for name in ("missed", "wrong"):
            for one in row[name][:MOST_LISTED]:
                print(f"{name}: {one}")
            if len(row[name]) > MOST_LISTED:
                print(f"{name}: {len(row[name]) - MOST_LISTED} more of {row['kind']} {row['cause'] or ''}")


def _table_of_kinds(report: dict[str, Any]) -> Table:
    table = _table(
        f"{report['seeds']} seeds a scenario, {report['seconds']:.0f} s; delays in seconds, median and longest",
        ("what",),
        (*FIGURES, "alert", "bound", "resolved"),
    )
    for row in report["kinds"]:
        table.add_row(
            ", ".join(name for name in (row["kind"], row["cause"]) if name),
            *figures(row),
            _delays(row["delay_p50_s"], row["delay_max_s"]),
            _seconds(row["bound_s"]),
            _delays(row["recovery_p50_s"], row["recovery_max_s"]),
        )
    return table


def _table_of_dimensions(report: dict[str, Any]) -> Table:
    table = _table(
        "by dimension; false pages, and healthy days",
        ("dimension", "value"),
        ("runs", *FIGURES, "pages", "days"),
    )
    for row in report["dimensions"]:
        table.add_row(
            row["dimension"],
            row["value"],
            str(row["runs"]),
            *figures(row),
            str(row["false_pages"]),
            f"{row['healthy_days']:.1f}",
        )
    return table


def _table(title: str, names: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in names:
        table.add_column(column, overflow="fold")
    for column in figures:
        table.add_column(column, justify="right", overflow="fold")
    return table


FIGURES = ("facts", "in time", "resolved", "recall", "claims", "precision", "early", "late", "endless")
"""Columns of facts and claims: required facts, those whose alert fired in time, of the ended ones those that resolved
in time; claims that began too early, resolved too late, never ended."""


def figures(row: dict[str, Any]) -> tuple[str, ...]:
    """The cells of `FIGURES`."""
    resolved = f"{row['resolved']}/{row['ended']}" if row["ended"] else "-"
    facts = (str(row["required"]), str(row["in_time"]), resolved) if row["required"] else ("", "", "")
    wrong = (str(row[name] or "") for name in ("early", "late", "endless"))
    return *facts, _share(row["recall"]), str(row["claims"]), _share(row["precision"]), *wrong


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _delays(median: float | None, longest: float | None) -> str:
    return "" if median is None or longest is None else f"{median:.0f}, {longest:.0f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
