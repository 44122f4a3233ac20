"""The quality page: failing expectations, and messages in quarantine."""

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from streaming.board.drawing import elements as el
from streaming.board.drawing.attributes import aria
from streaming.board.drawing.counts import counted
from streaming.board.drawing.quarantine_bars import bars
from streaming.board.pages.page import Page, View
from streaming.board.queries.quality import (
    Failing,
    Message,
    Rejections,
    Suites,
    excerpt,
    read_failing,
    read_newest,
    read_rejected,
    read_suites,
)
from streaming.board.url.parameters import read_span_ms
from streaming.text.times import MINUTE, span

SPANS = (("1h", "last hour"), ("6h", "last 6 hours"), ("24h", "last day"), ("7d", "last week"), ("30d", "last 30 days"))


@dataclass(frozen=True)
class QualityPage:
    """Values of the page: `rejected` within the URL's period (`since`), all others as of now."""

    since: str
    from_ms: int
    until_ms: int
    failing: Sequence[Failing]
    suites: Suites
    rejected: Rejections
    newest: Sequence[Message]
    now_ms: int


def read(view: View) -> QualityPage:
    span_ms = read_span_ms(view.asked, "since", "24h")
    until_ms = -(-view.now_ms // MINUTE) * MINUTE
    from_ms = until_ms - span_ms
    return QualityPage(
        view.asked.get("since", "24h"),
        from_ms,
        until_ms,
        read_failing(view.history),
        read_suites(view.history),
        read_rejected(view.history, from_ms, until_ms),
        read_newest(view.history),
        view.now_ms,
    )


def draw(page: QualityPage) -> Component:
    return html.Div(
        [
            el.heading("Quality", _summary(page)),
            _failing(page),
            _rejected(page),
            _newest(page),
            _suites(page),
        ],
        className="page",
    )


def _summary(page: QualityPage) -> Component:
    fails, all_ = page.suites.failing, page.suites.expectations
    expected: el.Child = f"{all_:,} expectations pass"
    if fails:
        expected = el.mark("▲", f"{fails:,} of {all_:,} expectations fail", "state-firing")
    words = [expected] if all_ else []
    words.append(f"{page.rejected.total:,} quarantined in {span(page.until_ms - page.from_ms)}")
    return html.Ul([html.Li(word) for word in words], className="counts", **aria(label="Summary"))


def _failing(page: QualityPage) -> Component:
    failing, suites = page.failing, page.suites
    title = "Failing expectations"
    if not suites.shown:
        return el.panel("failing", title, el.empty("No validation has run yet."))
    if not failing:
        return el.panel("failing", title, el.notice("calm", "All expectations pass.", id_="all-hold"))
    rows = [el.Row(f"{one.suite}/{one.expectation}", _failing_cells(page, one)) for one in failing]
    columns = [
        el.Column("Expectation", "wide"),
        el.Column("Severity", "narrow"),
        el.Column("Violations", "number"),
        el.Column("Examples", "wide"),
        el.Column("Checked", "narrow"),
    ]
    table = el.table("failing-table", title, columns, rows)
    rest = suites.failing - len(failing)
    more = el.empty(f"{rest:,} more fail.") if rest > 0 else None
    return el.panel("failing", title, table, more, note="in the newest check, worst first")


def _failing_cells(page: QualityPage, one: Failing) -> list[el.Children]:
    amount = f"{one.evaluated:,} rows"
    if one.unexpected is not None and one.evaluated:
        amount = f"{one.unexpected:,} of {one.evaluated:,} ({one.unexpected / one.evaluated:.1%})"
    found: list[el.Child] = [el.code(_short(value)) for value in one.observed[:3]]
    parted = [part for value in found for part in (value, " ")]
    where = html.Span(", ".join(one.sample_offsets[:2]), className="muted")
    return [
        [one.description, html.Br(), html.Span(one.suite, className="muted")],
        el.severity(one.severity),
        amount,
        [*parted, html.Br(), where] if one.sample_offsets else parted,
        el.age(one.validated_ms, page.now_ms),
    ]


def _rejected(page: QualityPage) -> Component:
    rejected, since = page.rejected, page.since
    spans = [*SPANS, *([(since, f"last {since}")] if since not in dict(SPANS) else [])]
    form = el.form(el.Form("filters", "/quality", "Filter by period", [el.Choice("since", "Period", spans, since)]))
    if not rejected.shown:
        return el.panel(
            "rejected", "Quarantine over time", form, el.empty("No message was quarantined in this period.")
        )
    rows = [
        el.Row(
            f"{one.topic}/{one.reason}",
            [one.topic, el.code(one.reason), f"{one.total:,}", el.age(one.newest_ms, page.now_ms)],
        )
        for one in rejected.shown
    ]
    if rejected.more_reasons:
        more = f"and {counted(rejected.more_reasons, 'more reason')}"
        rows.append(el.Row("more", [more, "", f"{rejected.more_messages:,}", ""]))
    columns: list[el.Column | str] = ["Topic", "Reason", el.Column("Messages", "number"), el.Column("Newest", "narrow")]
    table = el.table("rejected-table", "Quarantined messages by topic and first reason", columns, rows)
    chart = bars(rejected.shown, page.from_ms, page.until_ms)
    return el.panel("rejected", "Quarantine over time", form, chart, table, note="by topic and first reason")


def _newest(page: QualityPage) -> Component:
    title = "Newest quarantined messages"
    if not page.newest:
        return el.panel("newest", title, el.empty("The quarantine is empty."))
    rows = [
        el.Row(
            f"{one.topic}-{one.partition}-{one.offset}",
            [
                f"{one.topic}-{one.partition}@{one.offset}",
                el.age(one.ingest_ms, page.now_ms),
                html.Ul([html.Li(el.code(reason)) for reason in one.reasons[:5]], className="related"),
                el.code(excerpt(one)),
                (one.action or "-").lower(),
            ],
        )
        for one in page.newest
    ]
    columns = [
        el.Column("Message", "narrow"),
        el.Column("Received", "narrow"),
        el.Column("Reasons", "narrow"),
        el.Column("Content", "wide"),
        el.Column("Repair", "narrow"),
    ]
    table = el.table("newest-table", title, columns, rows)
    note: list[el.Child] = [el.code("balancewatch quarantine"), " lists, repairs and replays them"]
    return el.panel("newest", title, table, note=note)


def _suites(page: QualityPage) -> Component:
    suites = page.suites
    if not suites.shown:
        return html.Div(id="suites")
    rows = [
        el.Row(
            one.suite,
            [
                one.suite,
                el.mark("▲", f"{one.failing} fail", "state-firing")
                if one.failing
                else el.mark("✓", "all pass", "state-resolved"),
                f"{one.expectations:,}",
                el.age(one.validated_ms, page.now_ms),
            ],
        )
        for one in suites.shown
    ]
    columns: list[el.Column | str] = [
        "Suite",
        "Result",
        el.Column("Expectations", "number"),
        el.Column("Checked", "narrow"),
    ]
    table = el.table("suites-table", "Suites", columns, rows)
    note = f"{len(suites.shown):,} of {suites.number:,}" if suites.number > len(suites.shown) else None
    return el.panel("suites", "Suites", table, note=note)


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:59] + "…"


PAGE = Page(
    "quality",
    "/quality",
    "Quality",
    read,
    draw,
    nav="Quality",
    parameters=frozenset({"since"}),
    tables=frozenset({"quality", "quarantine", "repairs"}),
)
