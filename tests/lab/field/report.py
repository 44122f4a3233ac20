"""What a session says: by kind and cause, by play beside RocketMQ's own tools, and all that fell short."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.lab.field.judge import SHORT_OF, Verdict
from tests.lab.field.others import Said
from tests.lab.field.played import Played
from tests.lab.score.report import kinds_of

HOUR_MS = 3_600_000


def report_of(
    verdict: Verdict, plays: Sequence[tuple[Played, Verdict]], others: Mapping[str, Sequence[Said]]
) -> dict[str, Any]:
    """All that is told, as JSON takes it. `plays` are judged each for itself; `others` is by a play's name."""
    return {
        "kinds": kinds_of(verdict.tallies),
        "plays": [_play(played, of_play, others.get(played.name, ())) for played, of_play in plays],
        "quiet_hours": round(verdict.quiet_ms / HOUR_MS, 2),
        **{name: getattr(verdict, name) for name in SHORT_OF},
        "is_right": verdict.is_right,
    }


def _play(played: Played, verdict: Verdict, others: Sequence[Said]) -> dict[str, Any]:
    """`said` names what was told rightly."""
    told = sorted(
        kind if cause is None else f"{kind} ({cause})"
        for (kind, cause), tally in verdict.tallies.items()
        if tally.right
    )
    return {
        "scenario": played.scenario_name,
        "seed": played.seed,
        "seconds": round((played.end_ms - played.start_ms) / 1000),
        "told": told,
        "is_right": verdict.is_right,
        "others": {one.command.partition("_")[0]: one.complaint or "nothing wrong" for one in others},
    }


def markdown_of(report: Mapping[str, Any]) -> str:
    """Both tables, and what fell short, as a page takes them."""
    lines = [
        "| what | facts | in time | resolved | claims | right | early | late | endless "
        "| onset to alert: median, longest | bound | end to resolved: median, longest |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_kind_line(row) for row in report["kinds"] if row["required"] or row["claims"]),
        "",
        f"False pages in {report['quiet_hours']} quiet hours: {len(report['false_pages'])}.",
        "",
        "| play | seed | balancewatch | `mqadmin consumerStatus` | `mqadmin consumerProgress` | as it should |",
        "|---|---|---|---|---|---|",
        *(_play_line(row) for row in report["plays"]),
    ]
    short = short_of(report)
    return "\n".join([*lines, *(["", "What fell short:", ""] if short else []), *(f"- {one}" for one in short), ""])


def short_of(report: Mapping[str, Any]) -> list[str]:
    """Every sentence about what is not as it should be."""
    of_kinds = [f"{name}: {one}" for row in report["kinds"] for name in ("missed", "wrong") for one in row[name]]
    return of_kinds + [f"{name.replace('_', ' ')}: {one}" for name in SHORT_OF for one in report[name]]


def _kind_line(row: Mapping[str, Any]) -> str:
    name = f"`{row['kind']}`" + (f", `{row['cause']}`" if row["cause"] else "")
    facts = (str(row["required"]), str(row["in_time"])) if row["required"] else ("", "")
    resolved = f"{row['resolved']} of {row['ended']}" if row["ended"] else ""
    claims = (str(row[key]) for key in ("claims", "right", "early", "late", "endless"))
    delays = (_seconds(row["delay_p50_s"], row["delay_max_s"]), _seconds(row["bound_s"]))
    recovery = _seconds(row["recovery_p50_s"], row["recovery_max_s"])
    return "| " + " | ".join((name, *facts, resolved, *claims, *delays, recovery)) + " |"


def _play_line(row: Mapping[str, Any]) -> str:
    told = ", ".join(f"`{one}`" for one in row["told"]) or "nothing"
    others = row["others"]
    cells = (others.get("consumerStatus order-service", ""), others.get("consumerProgress order-service", ""))
    return (
        f"| {row['scenario']} | {row['seed']} | {told} | {' | '.join(cells)} | {'yes' if row['is_right'] else 'no'} |"
    )


def _seconds(*values: float | None) -> str:
    return ", ".join(f"{value:.0f} s" for value in values if value is not None)
