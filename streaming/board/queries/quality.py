"""Results of the expectations on events, and messages in quarantine."""

from dataclasses import dataclass

from streaming.board.queries.firing import WORST_FIRST
from streaming.store.store import History

MOST_FAILING = 50
MOST_SUITES = 60
MOST_REASONS = 12
NEWEST_MESSAGES = 30
BINS = 48
EXCERPT_BYTES = 120


@dataclass(frozen=True)
class Failing:
    """An expectation that failed in its newest check."""

    suite: str
    expectation: str
    description: str
    severity: str
    evaluated: int
    unexpected: int | None
    observed: tuple[str, ...]
    sample_offsets: tuple[str, ...]
    validated_ms: int


@dataclass(frozen=True)
class Suite:
    """A suite in its newest check: the number of its expectations and of the failing ones."""

    suite: str
    expectations: int
    failing: int
    validated_ms: int


@dataclass(frozen=True)
class Rejected:
    """Quarantined messages of one topic and reason: counts in BINS equal parts of the period."""

    topic: str
    reason: str
    counts: tuple[int, ...]
    newest_ms: int

    @property
    def total(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True)
class Rejections:
    """Quarantined messages of a period: the most frequent reasons, and counts of the others and their messages."""

    shown: tuple[Rejected, ...]
    total: int
    more_reasons: int
    more_messages: int


@dataclass(frozen=True)
class Suites:
    """The first suites, and counts over all: suites, expectations, and failing ones."""

    shown: tuple[Suite, ...]
    number: int
    expectations: int
    failing: int


@dataclass(frozen=True)
class Message:
    """A quarantined message. `excerpt` is its beginning, None without a value; `action` is that of its repair."""

    topic: str
    partition: int
    offset: int
    reasons: tuple[str, ...]
    ingest_ms: int
    excerpt: bytes | None
    size: int
    action: str | None


def read_failing(history: History) -> list[Failing]:
    """Return the failing expectations, critical ones first, then by share of violations."""
    rows = history.rows(
        "SELECT suite, expectation, coalesce(description, expectation) AS description, "
        "coalesce(severity, 'warning') AS severity, "
        "evaluated, unexpected, coalesce(observed, []) AS observed, coalesce(sample_offsets, []) AS sample_offsets, "
        "epoch_ms(validated_at) AS validated_ms FROM quality_now WHERE NOT success "
        f"ORDER BY {WORST_FIRST}, "
        "unexpected_share DESC NULLS LAST, suite, expectation LIMIT $most",
        {"most": MOST_FAILING},
    )
    lists = ("observed", "sample_offsets")
    return [Failing(**{**row, **{name: tuple(filter(None, row[name])) for name in lists}}) for row in rows]


def read_suites(history: History) -> Suites:
    """Return the suites, failing ones first, then by name; the totals are of all."""
    rows = history.rows(
        "SELECT suite, count(*) AS expectations, count(*) FILTER (NOT success) AS failing, "
        "epoch_ms(max(validated_at)) AS validated_ms, count(*) OVER () AS number, "
        "(sum(count(*)) OVER ())::BIGINT AS all_expectations, "
        "(sum(count(*) FILTER (NOT success)) OVER ())::BIGINT AS all_failing FROM quality_now GROUP BY suite "
        "ORDER BY failing = 0, suite LIMIT $most",
        {"most": MOST_SUITES},
    )
    if not rows:
        return Suites((), 0, 0, 0)
    sums = rows[0]["number"], rows[0]["all_expectations"], rows[0]["all_failing"]
    names = ("suite", "expectations", "failing", "validated_ms")
    return Suites(tuple(Suite(**{name: row[name] for name in names}) for row in rows), *sums)


def read_rejected(history: History, from_ms: int, until_ms: int) -> Rejections:
    """Return counts by topic and code of the first reason, the most frequent MOST_REASONS; others are counted."""
    rows = history.rows(
        """
        SELECT topic, split_part(coalesce(reasons[1], 'unknown'), ':', 1) AS reason,
            least($bins - 1, floor((epoch_ms(ingest_time) - $from_ms) / $bin_ms))::INT AS bin,
            count(*) AS n, epoch_ms(max(ingest_time)) AS newest_ms
        FROM quarantine
        WHERE ingest_time BETWEEN make_timestamptz($from_ms * 1000) AND make_timestamptz($until_ms * 1000)
        GROUP BY ALL ORDER BY ALL
        """,
        {"from_ms": from_ms, "until_ms": until_ms, "bins": BINS, "bin_ms": max(1.0, (until_ms - from_ms) / BINS)},
    )
    counts: dict[tuple[str, str], list[int]] = {}
    newest: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["topic"], row["reason"])
        counts.setdefault(key, [0] * BINS)[row["bin"]] += row["n"]
        newest[key] = max(newest.get(key, 0), row["newest_ms"])
    found = [Rejected(*key, tuple(bins), newest[key]) for key, bins in counts.items()]
    found.sort(key=lambda one: (-one.total, one.topic, one.reason))
    total, more = sum(one.total for one in found), found[MOST_REASONS:]
    return Rejections(tuple(found[:MOST_REASONS]), total, len(more), sum(one.total for one in more))


def read_newest(history: History) -> list[Message]:
    """Return the newest quarantined messages of all time, with the repair of each."""
    rows = history.rows(
        'SELECT topic, partition, "offset", coalesce(reasons, []) AS reasons, epoch_ms(ingest_time) AS ingest_ms, '
        "raw[1:$excerpt] AS excerpt, coalesce(octet_length(raw), 0) AS size, action "
        'FROM (SELECT * FROM quarantine ORDER BY ingest_time DESC, topic, partition, "offset" DESC LIMIT $most) '
        'LEFT JOIN (SELECT topic, partition, "offset", ingest_time, action FROM repairs_now) '
        'USING (topic, partition, "offset", ingest_time) '
        'ORDER BY ingest_ms DESC, topic, partition, "offset" DESC',
        {"excerpt": EXCERPT_BYTES, "most": NEWEST_MESSAGES},
    )
    return [Message(**{**row, "reasons": tuple(row["reasons"])}) for row in rows]


def excerpt(message: Message) -> str:
    """Return the beginning of the message as text, with escapes for unprintable characters."""
    if message.excerpt is None:
        return "(no value)"
    text = message.excerpt.decode("utf-8", "backslashreplace")
    shown = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)
    rest = message.size - len(message.excerpt)
    return shown + (f" … {rest:,} more bytes" if rest > 0 else "")
