"""The quality of what comes in: expectations that do not hold, and messages that broke their contract."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from streaming.board import elements as el
from streaming.board.asked import read_span_ms
from streaming.board.attributes import aria
from streaming.board.counts import counted
from streaming.board.page import Page, View
from streaming.board.quality_reading import (
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
from streaming.board.quarantine_bars import bars
from streaming.board.times import MINUTE, span

SPANS = (("1h", "last hour"), ("6h", "last 6 hours"), ("24h", "last day"), ("7d", "last week"), ("30d", "last 30 days"))


def body(view: View) -> Component:
    span_ms = read_span_ms(view.asked, "since", "24h")
    until_ms = -(-view.now_ms // MINUTE) * MINUTE
    from_ms = until_ms - span_ms
    failing, suites = read_failing(view.history), read_suites(view.history)
    rejected, newest = read_rejected(view.history, from_ms, until_ms), read_newest(view.history)
    return html.Div(
        [
            el.heading("Quality", _summary(suites, rejected.total, span_ms)),
            _failing(view, failing, suites),
            _rejected(view, rejected, from_ms, until_ms),
            _newest(view, newest),
            _suites(view, suites),
        ],
        className="page",
    )


def _summary(suites: Suites, rejected: int, span_ms: int) -> Component:
    fails, all_ = suites.failing, suites.expectations
    expected: el.Child = f"{all_:,} expectations hold"
    if fails:
        expected = el.mark("▲", f"{fails:,} of {all_:,} expectations fail", "state-firing")
    words = [expected] if all_ else []
    words.append(f"{rejected:,} quarantined in {span(span_ms)}")
    return html.Ul([html.Li(word) for word in words], className="counts", **aria(label="In short"))


def _failing(view: View, failing: Sequence[Failing], suites: Suites) -> Component:
    title = "Expectations that fail"
    if not suites.shown:
        return el.panel("failing", title, el.empty("Nothing has been validated yet."))
    if not failing:
        return el.panel("failing", title, el.notice("calm", "All hold.", id_="all-hold"))
    rows = [el.Row(f"{one.suite}/{one.expectation}", _failing_cells(view, one)) for one in failing]
    columns = [
        el.Column("Expectation", "wide"),
        el.Column("Severity", "narrow"),
        el.Column("Not as expected", "number"),
        el.Column("Found, and where", "wide"),
        el.Column("Checked", "narrow"),
    ]
    table = el.table("failing-table", "As of the newest check, worst first", columns, rows)
    rest = suites.failing - len(failing)
    return el.panel("failing", title, table, el.empty(f"and {rest:,} more that fail.") if rest > 0 else None)


def _failing_cells(view: View, one: Failing) -> list[el.Children]:
    amount = f"{one.rows:,} rows"
    if one.unexpected is not None and one.rows:
        amount = f"{one.unexpected:,} of {one.rows:,} ({one.unexpected / one.rows:.1%})"
    found: list[el.Child] = [el.code(_short(value)) for value in one.observed[:3]]
    parted = [part for value in found for part in (value, " ")]
    where = html.Span(", ".join(one.places[:2]), className="muted")
    return [
        [one.says, html.Br(), html.Span(one.suite, className="muted")],
        el.severity(one.severity),
        amount,
        [*parted, html.Br(), where] if one.places else parted,
        el.age(one.validated_ms, view.now_ms),
    ]


def _rejected(view: View, rejected: Rejections, from_ms: int, until_ms: int) -> Component:
    since = view.asked.get("since", "24h")
    spans = [*SPANS, *([(since, f"last {since}")] if since not in dict(SPANS) else [])]
    form = el.form(el.Form("filters", "/quality", "Choose the time", [el.Choice("since", "Time", spans, since)]))
    if not rejected.shown:
        return el.panel(
            "rejected", "Quarantine over time", form, el.empty("No message broke its contract in this time.")
        )
    rows = [
        el.Row(
            f"{one.topic}/{one.reason}",
            [one.topic, el.code(one.reason), f"{one.total:,}", el.age(one.newest_ms, view.now_ms)],
        )
        for one in rejected.shown
    ]
    if rejected.more_reasons:
        more = f"and {counted(rejected.more_reasons, 'more reason')}"
        rows.append(el.Row("more", [more, "", f"{rejected.more_messages:,}", ""]))
    columns: list[el.Column | str] = ["Topic", "Reason", el.Column("Messages", "number"), el.Column("Newest", "narrow")]
    table = el.table("rejected-table", "Messages quarantined in this time, by topic and first reason", columns, rows)
    return el.panel("rejected", "Quarantine over time", form, bars(rejected.shown, from_ms, until_ms), table)


def _newest(view: View, messages: Sequence[Message]) -> Component:
    title = "Newest in quarantine"
    if not messages:
        return el.panel("newest", title, el.empty("No message has ever broken its contract."))
    rows = [
        el.Row(
            f"{one.topic}-{one.partition}-{one.offset}",
            [
                f"{one.topic}-{one.partition}@{one.offset}",
                el.age(one.ingest_ms, view.now_ms),
                html.Ul([html.Li(el.code(reason)) for reason in one.reasons[:5]], className="related"),
                el.code(excerpt(one)),
                (one.step or "-").lower(),
            ],
        )
        for one in messages
    ]
    columns = [
        el.Column("Place", "narrow"),
        el.Column("Came", "narrow"),
        el.Column("Reasons", "narrow"),
        el.Column("Begins with", "wide"),
        el.Column("Repair", "narrow"),
    ]
    table = el.table("newest-table", "Messages that broke their contract, the newest first", columns, rows)
    note: list[el.Child] = [el.code("balancewatch quarantine"), " lists, repairs and replays them"]
    return el.panel("newest", title, table, note=note)


def _suites(view: View, suites: Suites) -> Component:
    if not suites.shown:
        return html.Div(id="suites")
    rows = [
        el.Row(
            one.suite,
            [
                one.suite,
                el.mark("▲", f"{one.failing} fail", "state-firing")
                if one.failing
                else el.mark("✓", "hold", "state-resolved"),
                f"{one.expectations:,}",
                el.age(one.validated_ms, view.now_ms),
            ],
        )
        for one in suites.shown
    ]
    columns: list[el.Column | str] = [
        "Suite",
        "Expectations",
        el.Column("Of", "number"),
        el.Column("Checked", "narrow"),
    ]
    table = el.table("suites-table", "Each suite as it was last checked", columns, rows)
    note = f"{len(suites.shown):,} of {suites.number:,}" if suites.number > len(suites.shown) else None
    return el.panel("suites", "Suites", table, note=note)


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:59] + "…"


PAGE = Page(
    "quality",
    "/quality",
    "Quality",
    body,
    nav="Quality",
    parameters=frozenset({"since"}),
    tables=frozenset({"quality", "quarantine", "repairs"}),
)
