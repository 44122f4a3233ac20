"""Routes and the patterns they are made of."""

import pytest

from udfs.alerts.pattern import describe_matchers, is_match
from udfs.alerts.routing import QUIET, Route, pick_receivers, pick_watchdog_receivers

ALERT = {"kind": "starved_queue", "severity": "critical", "cluster": "prod-eu", "consumer_group": "billing"}
INFO = ALERT | {"severity": "info"}


@pytest.mark.parametrize(
    ("matchers", "is_matched"),
    [
        ({}, True),
        ({"cluster": ("prod-*",)}, True),
        ({"cluster": ("staging-*", "prod-??")}, True),
        ({"cluster": ("prod",)}, False),
        ({"cluster": ("PROD-*",)}, False),
        ({"cluster": ("prod-*",), "consumer_group": ("orders",)}, False),
        ({"topic": ("*",)}, True),
        ({"topic": ("?*",)}, False),
        ({"topic": ("",)}, True),
        ({"team": ("*",)}, False),
        ({"consumer_group": ("[!a-z]*",)}, False),
        ({"consumer_group": ("a" * 20 + "*" * 200 + "b",)}, False),
    ],
    ids=str,
)
def test_all_labels_named_must_match_and_a_missing_one_of_the_alert_is_empty(
    matchers: dict[str, tuple[str, ...]], is_matched: bool
) -> None:
    assert is_match(matchers, ALERT) is is_matched


def test_matchers_are_described_in_the_words_of_the_command() -> None:
    assert describe_matchers({"kind": ("a", "b*"), "cluster": ("c",)}) == "cluster=c kind=a,b*"
    assert describe_matchers({}) == "everything"


FIRST = [
    Route("staging", ("chat",), {"cluster": ("staging-*",)}),
    Route("prod", ("pager", "chat"), {"cluster": ("prod-*",)}),
    Route("rest", ("log",)),
]
CONTINUED = [
    Route("everything", ("audit", "chat"), is_continued=True),
    Route("bad", ("pager", "chat"), {"severity": ("critical",)}),
    Route("rest", ("log",)),
]


@pytest.mark.parametrize(
    ("routes", "changed", "notified"),
    [
        (FIRST, {}, {"pager": "prod", "chat": "prod"}),
        (FIRST, {"cluster": "lab"}, {"log": "rest"}),
        (CONTINUED, {}, {"audit": "everything", "chat": "everything", "pager": "bad"}),
        (CONTINUED, {"severity": "error"}, {"audit": "everything", "chat": "everything", "log": "rest"}),
    ],
    ids=["first", "first_is_the_last", "continued", "continued_to_the_last"],
)
def test_the_first_route_that_matches_takes_it_but_for_one_that_continues_and_each_receiver_is_notified_once(
    routes: list[Route], changed: dict[str, str], notified: dict[str, str]
) -> None:
    assert pick_receivers(routes, ALERT | changed) == notified


@pytest.mark.parametrize(
    ("match", "notified"),
    [
        ({}, {"log": QUIET}),
        ({"cluster": ("*",)}, {"log": QUIET}),
        ({"severity": ("info",)}, {"pager": "route"}),
        ({"severity": ("warning", "info")}, {"pager": "route"}),
        ({"severity": ("critical",)}, {"log": QUIET}),
        ({"kind": ("starved_*",)}, {"pager": "route"}),
    ],
    ids=str,
)
def test_info_goes_only_where_severity_or_kind_are_named_and_else_to_the_log(
    match: dict[str, tuple[str, ...]], notified: dict[str, str]
) -> None:
    assert pick_receivers([Route("route", ("pager",), match)], INFO, quiet=["log"]) == notified


def test_what_is_not_info_never_falls_back_to_the_log() -> None:
    assert pick_receivers([Route("route", ("pager",), {"kind": ("other",)})], ALERT, quiet=["log"]) == {}


def test_the_watchdog_goes_only_where_its_kind_is_named() -> None:
    routes = [
        Route("info", ("log",), {"severity": ("info",)}),
        Route("dog", ("snitch",), {"kind": ("watchdog",)}),
        Route("rest", ("pager",)),
    ]
    assert pick_watchdog_receivers(routes) == {"snitch": "dog"}
    assert pick_watchdog_receivers(routes[:1] + routes[2:]) == {}
