"""The quality page: failing expectations, and messages in quarantine."""

from collections.abc import Mapping
from typing import Any

from schemas.views import MOST_SEVERE_FIRST
from streaming.board.chart import AMBER, BLUE, GREEN, GREY, HATCHES, PURPLE, RED, Axis, Bar, Chart, Key
from streaming.board.page import Page, View
from streaming.board.url import read_span_ms
from streaming.store.store import History
from streaming.text.language import gettext, localize
from streaming.text.times import MINUTE, clock
from udfs.alerts.phrase import phrase

MOST_FAILING = 50
MOST_SUITES = 60
MOST_REASONS = 12
NEWEST_MESSAGES = 30
BINS = 48
EXCERPT_BYTES = 120


def read_failing(history: History) -> list[dict[str, Any]]:
    """Return the expectations that failed in their newest check: critical ones first, then by share of violations."""
    rows = history.rows(
        "SELECT suite, expectation, coalesce(description, expectation) AS description, "
        "coalesce(severity, 'warning') AS severity, "
        "evaluated, unexpected, coalesce(observed, []) AS observed, coalesce(sample_offsets, []) AS sample_offsets, "
        "epoch_ms(validated_at) AS validated_ms FROM quality_now WHERE NOT success "
        f"ORDER BY {MOST_SEVERE_FIRST}, "
        "unexpected_share DESC NULLS LAST, suite, expectation LIMIT $most",
        {"most": MOST_FAILING},
    )
    lists = ("observed", "sample_offsets")
    return [row | {name: [*filter(None, row[name])] for name in lists} for row in rows]


def read_suites(history: History) -> dict[str, Any]:
    """Return the first suites in their newest check, failing ones first, then by name, and counts over all."""
    rows = history.rows(
        "SELECT suite, count(*) AS expectations, count(*) FILTER (NOT success) AS failing, "
        "epoch_ms(max(validated_at)) AS validated_ms, count(*) OVER () AS number, "
        "(sum(count(*)) OVER ())::BIGINT AS all_expectations, "
        "(sum(count(*) FILTER (NOT success)) OVER ())::BIGINT AS all_failing FROM quality_now GROUP BY suite "
        "ORDER BY failing = 0, suite LIMIT $most",
        {"most": MOST_SUITES},
    )
    number, expectations, failing = (
        max((row.pop(name) for row in rows), default=0) for name in ("number", "all_expectations", "all_failing")
    )
    return {"shown": rows, "number": number, "expectations": expectations, "failing": failing}


def read_rejected(history: History, from_ms: int, until_ms: int) -> dict[str, Any]:
    """Return counts by topic and code of the first reason: the most frequent MOST_REASONS (`shown`) with their `counts`
    in BINS equal parts of the period, and counts of the others and their messages.
    """
    rows = history.rows(
        """
        SELECT topic, reason, count(*) AS total, epoch_ms(max(ingest_time)) AS newest_ms, histogram(bin) AS counts
        FROM (
            SELECT topic, split_part(coalesce(reasons[1], 'unknown'), ':', 1) AS reason, ingest_time,
                least($bins - 1, floor((epoch_ms(ingest_time) - $from_ms) / $bin_ms))::INT AS bin
            FROM quarantine
            WHERE ingest_time BETWEEN make_timestamptz($from_ms * 1000) AND make_timestamptz($until_ms * 1000)
        ) GROUP BY topic, reason ORDER BY total DESC, topic, reason
        """,
        {"from_ms": from_ms, "until_ms": until_ms, "bins": BINS, "bin_ms": max(1.0, (until_ms - from_ms) / BINS)},
    )
    for row in rows:
        counts = dict(row["counts"])
        row["counts"] = [counts.get(number, 0) for number in range(BINS)]
    total, more = sum(row["total"] for row in rows), rows[MOST_REASONS:]
    more_messages = sum(row["total"] for row in more)
    return {"shown": rows[:MOST_REASONS], "total": total, "more_reasons": len(more), "more_messages": more_messages}


def read_newest(history: History) -> list[dict[str, Any]]:
    """Return the newest quarantined messages of all time: `excerpt` is the beginning, `action` that of the repair."""
    return history.rows(
        'SELECT topic, partition, "offset", coalesce(reasons, []) AS reasons, epoch_ms(ingest_time) AS ingest_ms, '
        "raw[1:$excerpt] AS excerpt, coalesce(octet_length(raw), 0) AS size, action "
        'FROM (SELECT * FROM quarantine ORDER BY ingest_time DESC, topic, partition, "offset" DESC LIMIT $most) '
        'LEFT JOIN (SELECT topic, partition, "offset", ingest_time, action FROM repairs_now) '
        'USING (topic, partition, "offset", ingest_time) '
        'ORDER BY ingest_ms DESC, topic, partition, "offset" DESC',
        {"excerpt": EXCERPT_BYTES, "most": NEWEST_MESSAGES},
    )


def excerpt(message: Mapping[str, Any]) -> str:
    """Return the beginning of the message as text, with escapes for unprintable characters."""
    if message["excerpt"] is None:
        return gettext("(no value)")
    text = message["excerpt"].decode("utf-8", "backslashreplace")
    shown = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)
    rest = message["size"] - len(message["excerpt"])
    return shown + (localize(phrase(" … {number:,} more bytes", number=rest)) if rest > 0 else "")


def read(view: View) -> dict[str, Any]:
    """Return the values of the page: `rejected` within the URL's period (`since`), all others as of now."""
    span_ms = read_span_ms(view.asked, "since", "24h")
    until_ms = -(-view.now_ms // MINUTE) * MINUTE
    from_ms = until_ms - span_ms
    return {
        "since": view.asked.get("since", "24h"),
        "from_ms": from_ms,
        "until_ms": until_ms,
        "failing": read_failing(view.history),
        "suites": read_suites(view.history),
        "rejected": read_rejected(view.history, from_ms, until_ms),
        "newest": read_newest(view.history),
    }


TONES = (RED, BLUE, AMBER, PURPLE, GREEN, GREY)
CHART_PX = 180


def draw(page: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"chart": quarantine_chart(page) if page["rejected"]["shown"] else None, "excerpt": excerpt}


def quarantine_chart(page: Mapping[str, Any]) -> Chart:
    """Return counts over time, stacked by topic and reason; after six, tones repeat with another hatching."""
    from_ms, until_ms = page["from_ms"], page["until_ms"]
    axis = Axis(from_ms, until_ms)
    rejected = page["rejected"]["shown"]
    highest = max((sum(counts) for counts in zip(*(reason["counts"] for reason in rejected), strict=True)), default=0)
    step = max(1, -(-highest // 4))
    scale = CHART_PX / (step * -(-highest // step) or 1)
    step_ms = (until_ms - from_ms) / BINS
    bars, keys, below = [], [], [0] * BINS
    for number, reason in enumerate(rejected):
        tone, hatch = TONES[number % len(TONES)], HATCHES[(number + number // len(TONES)) % len(HATCHES)]
        key = Key(f"{reason['topic']}: {reason['reason']}", tone, hatch)
        keys.append(key)
        for bin_, count in enumerate(reason["counts"]):
            if count:
                title = f"{clock(round(from_ms + bin_ * step_ms), until_ms)}: {count:,}\n{key.name}"
                y = CHART_PX - (below[bin_] + count) * scale
                place = ((bin_ + 0.1) * 100 / BINS, 80 / BINS)
                solid = 0.0 if hatch else 1.0
                bars.append(
                    Bar(*place, round(y, 1), round(count * scale, 1), tone, hatch, key.name, title, strength=solid)
                )
                below[bin_] += count
    levels = [(round(CHART_PX - level * scale, 1), f"{level:,}") for level in range(0, highest + 1, step)]
    label = phrase("Messages quarantined over time, by {number} topics and reasons; the table below has the totals.")
    return Chart(
        "quarantined", localize(label.given(number=len(rejected))), CHART_PX, axis, bars, keys=keys, levels=levels
    )


PAGE = Page(
    "quality",
    "/quality",
    phrase("Quality"),
    read,
    draw,
    nav=phrase("Quality"),
    parameters=frozenset({"since"}),
    tables=frozenset({"quality", "quarantine", "repairs"}),
)
