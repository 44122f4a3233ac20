"""What a session says: by kind and cause, by play beside RocketMQ's own tools, and all that fell short."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.lab.field.judge import SHORT_OF, Verdict
from tests.lab.field.played import Played
from tests.lab.score.report import FIGURES, Row, cells, kinds_of, name_of
from tests.manual.block import markdown_table

HOUR_MS = 3_600_000


def report_of(
    verdict: Verdict, plays: Sequence[tuple[Played, Verdict]], others: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """All that is reported, as JSON takes it. `plays` are judged each for itself.

    `others` is a play's name to the commands of RocketMQ's tools and their complaints.
    """
    return {
        "kinds": kinds_of(verdict.tallies),
        "plays": [
            {
                "scenario": played.scenario_name,
                "seed": played.seed,
                "seconds": round((played.end_ms - played.start_ms) / 1000),
                "reported": [name_of(row) for row in kinds_of(of_play.tallies) if row["right"]],
                "is_right": of_play.is_right,
                "others": {
                    command.partition("_")[0]: complaint or "nothing wrong"
                    for command, complaint in others.get(played.name, {}).items()
                },
            }
            for played, of_play in plays
        ],
        "quiet_hours": round(verdict.quiet_ms / HOUR_MS, 2),
        **{name: getattr(verdict, name) for name in SHORT_OF},
        "is_right": verdict.is_right,
    }


def markdown_of(report: Row) -> str:
    """Both tables, and what fell short, as a page takes them."""
    kinds = [(f"`{name_of(row)}`", *cells(row)) for row in report["kinds"] if row["required"] or row["claims"]]
    plays = [
        (
            row["scenario"],
            str(row["seed"]),
            ", ".join(f"`{one}`" for one in row["reported"]) or "nothing",
            *(row["others"].get(f"{tool} order-service", "") for tool in ("consumerStatus", "consumerProgress")),
            "yes" if row["is_right"] else "no",
        )
        for row in report["plays"]
    ]
    tools = ("`mqadmin consumerStatus`", "`mqadmin consumerProgress`")
    short = short_of(report)
    return "\n".join(
        [
            markdown_table(("what", *FIGURES), kinds),
            "",
            f"False pages in {report['quiet_hours']} quiet hours: {len(report['false_pages'])}.",
            "",
            markdown_table(("play", "seed", "balancewatch", *tools, "as it should"), plays),
            "",
            *(["What fell short:", "", *(f"- {one}" for one in short), ""] if short else []),
        ]
    )


def short_of(report: Row) -> list[str]:
    """Every sentence about what is not as it should be."""
    of_kinds = [f"{name}: {one}" for row in report["kinds"] for name in ("missed", "wrong") for one in row[name]]
    return of_kinds + [f"{name.replace('_', ' ')}: {one}" for name in SHORT_OF for one in report[name]]
