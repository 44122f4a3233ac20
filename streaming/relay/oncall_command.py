"""`balancewatch oncall test`: a marked test alert and its end, through the code of a receiver."""

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from conf.oncall import OnCall
from conf.settings import SettingsError
from streaming.relay.notice import ONCALL_TEST, Notice
from streaming.relay.receivers import make_receivers, names_of
from streaming.relay.receivers.posting import Receiver, Verdict
from streaming.terminal.command import fail, load
from streaming.terminal.format_option import format_option
from streaming.text.console import VisibleConsole
from streaming.text.language import translate
from streaming.text.output import say, write_json
from streaming.text.suggestions import closest
from streaming.text.times import wall_ms
from udfs.alerts.alert import wording
from udfs.alerts.self_kinds import OWN_CLUSTER

HOLD_MS = 10_000
"""Time that a test stays open where a person is paged: an alert that ends at once reaches no phone."""

PAGING = ("alertmanager", "pagerduty")

SEEN: Mapping[str, str] = {
    "alertmanager": f"Alertmanager had the alert for {HOLD_MS // 1000} s. It notifies if the group_wait of its route "
    "is shorter.",
    "pagerduty": 'PagerDuty has an incident that begins with "Test", now resolved; it notified by its own rules.',
    "webhook": 'The address has two requests, firing and resolved, with the label test = "true".',
    "dingtalk": "The group has two messages of the robot, 1 firing and 1 resolved.",
    "feishu": "The group has two cards of the bot, 1 firing and 1 resolved.",
    "log": "The log has two lines, `alert firing` and `alert resolved`.",
}
"""Type of a receiver to what the person on call sees after a test."""

OUTCOMES: Mapping[Verdict, tuple[str, str]] = {
    "DELIVERED": ("delivered", ""),
    "RETRY": ("failed", "Check the receiver and the network path to it; a test that arrived may still be open there."),
    "REFUSED": ("refused", "Check its address in [oncall], and its answer above."),
    "BAD_KEY": ("key refused", "Correct the key in its environment variable."),
}
"""How the relay classifies an answer, in words, and what to do."""

COLUMNS = ("receiver", "status", "outcome", "code", "latency_ms", "reason", "incident_id")

oncall = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@oncall.callback()
def _oncall() -> None:
    """Test the path from balancewatch to the person on call."""


@oncall.command("test")
def send_test(
    receiver: Annotated[
        str | None, typer.Argument(help="Receiver of [oncall], or one replica, such as 'am[0]'.", metavar="RECEIVER")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Test every receiver.")] = False,
    format_: Annotated[str, format_option("table", "json")] = "table",
) -> None:
    """Send a test alert to a receiver, then its end.

    The alert is critical and pages like a real one. Its summary begins with "Test", its label `test` is "true", and
    its incident key is new. Routes, silences and mutes do not apply, and no table is written. PagerDuty and
    Alertmanager get the end after 10 seconds. Exit code 1: a call failed.

    Example: balancewatch oncall test pager

    Example: balancewatch oncall test --all -o json
    """
    if all_ == (receiver is not None):
        fail("give either a RECEIVER or --all", code=2)
    language, settings = (loaded := load()).language, loaded.oncall
    try:
        receivers = make_receivers(settings, language=language)
    except SettingsError as error:
        fail(str(error), code=2)
    names = list(receivers) if receiver is None else _pick(receiver, settings)
    types = {name: given.type for given in settings.receivers for name in names_of(given)}
    try:
        calls = _test([(types[name], receivers[name]) for name in names], language, shows=format_ == "table")
    finally:
        for each in receivers.values():
            each.close()
    failed = {call["receiver"]: call for call in calls if call["outcome"] != "DELIVERED"}
    expected = {name: SEEN[types[name]] for name in names if name not in failed}
    if format_ == "json":
        write_json({"calls": calls, "expected": expected})
    else:
        for name in names:
            say(f"{name}: {expected.get(name) or OUTCOMES[failed[name]['outcome']][1]}")
    if failed:
        raise typer.Exit(1)


def _pick(text: str, settings: OnCall) -> list[str]:
    """Return the receivers of this name: a configured one, or a replica. Leaves with 2 for an unknown name."""
    known = {given.name: names_of(given) for given in settings.receivers}
    known |= {name: [name] for names in known.values() for name in names}
    if text not in known:
        near = "".join(f"nearest: {name}; " for name in closest(text, known)[:1])
        fail(f"RECEIVER {text[:100]!r} is unknown; {near}receivers: {', '.join(known)}", code=2)
    return known[text]


def _test(receivers: Sequence[tuple[str, Receiver]], language: str, *, shows: bool) -> list[dict[str, Any]]:
    """Send each (type, receiver) its alert, then the ends, also if the wait for them is interrupted; return the calls.

    A receiver that refused the alert gets no end.
    """
    calls: list[dict[str, Any]] = []

    def call(receiver: Receiver, notice: Notice) -> Verdict:
        began = time.monotonic()
        answer = receiver.send([notice], wall_ms())
        latency_ms = round((time.monotonic() - began) * 1000)
        cells = (answer.verdict, answer.code, latency_ms, answer.reason, notice.incident_id)
        calls.append(dict(zip(COLUMNS, (receiver.name, notice.status, *cells), strict=True)))
        if shows:
            what = f"{notice.status} {OUTCOMES[answer.verdict][0]} ({latency_ms / 1000:.2f} s)"
            say(f"{receiver.name}: {what}: {answer.reason}", flush=True)
        return answer.verdict

    ends, waits_ms = [], [0]
    for type_, receiver in receivers:
        notice = _notice(
            receiver.name.partition("[")[0], language
        )  # replicas notify together: theirs is the same alert
        verdict = call(receiver, notice)
        if verdict == "DELIVERED":
            waits_ms.append(HOLD_MS if type_ in PAGING else receiver.traits.min_interval_ms)
        if verdict in ("DELIVERED", "RETRY"):  # without an answer it may have arrived
            ends.append((receiver, notice))
    try:
        if seconds := max(waits_ms) / 1000:
            console = VisibleConsole(stderr=True, force_terminal=sys.stderr.isatty())
            with console.status(f"the end follows in {seconds:g} s"):
                time.sleep(seconds)
    finally:
        for receiver, notice in ends:
            call(receiver, replace(notice, status="resolved", state="RESOLVED", changed_at_ms=wall_ms()))
    return calls


def _notice(receiver: str, language: str) -> Notice:
    text = wording(
        "Test of the receiver {receiver} by `balancewatch oncall test`. No queue is affected.",
        "No action is needed: the test ends within seconds.",
    ).given(receiver=receiver)
    now_ms, key = wall_ms(), f"test-{secrets.token_hex(8)}"
    return Notice(
        alert_id=key,
        incident_id=key,
        kind=ONCALL_TEST,
        severity="critical",
        status="firing",
        labels={"cluster": OWN_CLUSTER, "receiver": receiver, "test": "true"},
        cluster=OWN_CLUSTER,
        summary=translate(text.summary, language),
        advice=translate(text.advice, language),
        started_at_ms=now_ms,
        changed_at_ms=now_ms,
    )
