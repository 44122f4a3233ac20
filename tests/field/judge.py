"""The alerts of a batch of plays against what was so in them: tallies a kind and cause, delays, false pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.field.facts import facts_of
from tests.field.played import Played
from tests.field.truth import Truth
from tests.score.claims import claims_of, pages_of
from tests.score.match import UNFOUNDED, Key, Tally, compare, verdicts_of

Row = Mapping[str, Any]

SHORT_OF = ("surprises", "absent", "unended", "afterwards", "false_pages")
"""Fields of a verdict that are empty where all is right."""


@dataclass
class Verdict:
    """What became of plays that were played side by side.

    tallies      (kind, cause) to what was told, missed and wrong
    surprises    what the clients' logs show and no file expects
    absent       what a file expects and did not happen
    unended      alerts that did not end for the reason the file gives
    afterwards   pages of a play that came after its groups and topics were deleted
    false_pages  pages of quiet plays
    quiet_ms     how long quiet plays were played
    """

    tallies: dict[Key, Tally] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    afterwards: list[str] = field(default_factory=list)
    false_pages: list[str] = field(default_factory=list)
    quiet_ms: int = 0

    @property
    def is_right(self) -> bool:
        is_told = not any(tally.missed or tally.wrong for tally in self.tallies.values())
        return is_told and not any(getattr(self, name) for name in SHORT_OF)

    def add(self, other: "Verdict") -> None:
        for key, tally in other.tallies.items():
            self.tallies.setdefault(key, Tally()).add(tally)
        for name in SHORT_OF:
            getattr(self, name).extend(getattr(other, name))
        self.quiet_ms += other.quiet_ms


def judge(plays: Sequence[tuple[Played, Truth]], alerts: Iterable[Row]) -> Verdict:
    """`alerts` are rows of the table with `changed_at` in ms, by time; those of other plays are left out.

    Rows of no group belong to all plays, which is why one that hurts brokers is played alone.
    """
    verdict = Verdict()
    start_ms = min(played.start_ms for played, _ in plays)
    kept = list(alerts)
    rows = [row for row in kept if _is_of(row, plays, start_ms)]
    found_of = [facts_of(played, truth) for played, truth in plays]
    facts = [fact for found in found_of for fact in found.facts]
    claims = claims_of(rows)
    explained = {claim.incident_id for claim, one in verdicts_of(claims, facts).items() if one not in UNFOUNDED}
    for (played, _), found in zip(plays, found_of, strict=True):
        verdict.surprises += found.surprises
        verdict.absent += found.absent
        verdict.unended += _unended(played, rows)
        verdict.afterwards += _afterwards(played, kept)
        if played.scenario.is_quiet:
            verdict.quiet_ms += played.end_ms - played.start_ms
            paged = pages_of(
                row
                for row in rows
                if _is_groups(row, played) or (_is_groupless(row, plays) and row["incident_id"] not in explained)
            )
            verdict.false_pages += [f"{played.name}: {row['kind']} {row['cause']}" for row in paged.values()]
    name = plays[0][0].name if len(plays) == 1 else f"{len(plays)} plays"
    verdict.tallies = compare(claims, facts, name, start_ms)
    return verdict


def _is_of(row: Row, plays: Sequence[tuple[Played, Truth]], start_ms: int) -> bool:
    """A row of one of the groups up to its play's end, or of no group while any is played."""
    if _is_groupless(row, plays):
        return start_ms <= int(row["changed_at"]) <= max(played.end_ms for played, _ in plays)
    return any(_is_groups(row, played) and int(row["changed_at"]) <= played.end_ms for played, _ in plays)


def _is_groupless(row: Row, plays: Sequence[tuple[Played, Truth]]) -> bool:
    """Whether the row is of no group and of none of the topics."""
    return row["consumer_group"] is None and not _topic_of_any(row, plays)


def _topic_of_any(row: Row, plays: Sequence[tuple[Played, Truth]]) -> bool:
    return any(played.has(row["topic"]) for played, _ in plays)


def _is_groups(row: Row, played: Played) -> bool:
    return played.has(row["consumer_group"]) or played.has(row["topic"])


def _afterwards(played: Played, rows: Iterable[Row]) -> list[str]:
    """Pages of its groups and topics that came when they were gone."""
    paged = pages_of(row for row in rows if _is_groups(row, played))
    return [
        f"{played.name}: {row['kind']} {row['cause']} {(row['changed_at'] - played.end_ms) / 1000:.0f} s after its end"
        for row in paged.values()
        if row["changed_at"] > played.end_ms
    ]


def _unended(played: Played, rows: Iterable[Row]) -> list[str]:
    """Expectations with `ends_with` whose alert has no RESOLVED row for that reason."""
    missing = []
    for expected in played.scenario.expects:
        group = played.own(expected.consumer_group)
        reasons = {
            row["reason"]
            for row in rows
            if row["kind"] == expected.kind and row["state"] == "RESOLVED" and group in (None, row["consumer_group"])
        }
        if expected.ends_with and expected.ends_with not in reasons:
            missing.append(f"{played.name}: {expected.kind} ended by {sorted(reasons)}, not {expected.ends_with}")
    return missing
