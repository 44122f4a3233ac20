"""What a score says: by kind and cause, and by the value of each dimension that was not as in the scenario's file."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.score.match import Key, Tally
from tests.score.run import DAY_MS, Run, Score

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
        "kinds": _kinds(tallies),
        "dimensions": _dimensions(todo, scores),
    }


def _kinds(tallies: dict[Key, Tally]) -> list[dict[str, Any]]:
    kinds = []
    for (kind, cause), tally in sorted(tallies.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        delays = sorted(delay for delay, _ in tally.delays_ms)
        kinds.append(
            {
                "kind": kind,
                "cause": cause,
                **_shares(tally),
                "delay_p50_s": statistics.median(delays) / 1000 if delays else None,
                "delay_max_s": delays[-1] / 1000 if delays else None,
                "bound_s": max(bound for _, bound in tally.delays_ms) / 1000 if delays else None,
                "missed": tally.missed,
                "wrong": tally.wrong,
            }
        )
    return kinds


def _shares(tally: Tally) -> dict[str, Any]:
    return {
        "required": tally.required,
        "recall": tally.reported / tally.required if tally.required else None,
        "claims": tally.claims,
        "precision": tally.right / tally.claims if tally.claims else None,
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
            **_shares(total),
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
        f"{report['seeds']} seeds a scenario, {report['seconds']:.0f} s",
        ("kind", "cause"),
        ("facts", "recall", "claims", "precision", "delay p50", "max", "bound"),
    )
    for row in report["kinds"]:
        table.add_row(
            row["kind"],
            row["cause"] or "",
            *_reported(row),
            *(_seconds(row[name]) for name in ("delay_p50_s", "delay_max_s", "bound_s")),
        )
    return table


def _table_of_dimensions(report: dict[str, Any]) -> Table:
    table = _table(
        "by dimension",
        ("dimension", "value"),
        ("runs", "facts", "recall", "claims", "precision", "false pages", "healthy days"),
    )
    for row in report["dimensions"]:
        table.add_row(
            row["dimension"],
            row["value"],
            str(row["runs"]),
            *_reported(row),
            str(row["false_pages"]),
            f"{row['healthy_days']:.1f}",
        )
    return table


def _table(title: str, names: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(title=title)
    for column in names:
        table.add_column(column, overflow="fold")
    for column in figures:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _reported(row: dict[str, Any]) -> tuple[str, ...]:
    return str(row["required"]), _share(row["recall"]), str(row["claims"]), _share(row["precision"])


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"
