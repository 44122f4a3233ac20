"""The sections `[oncall]`, `[[mutes]]`, `[[labels]]` and `[canary]`: receivers, routes, windows without alerts.

Secrets are in the environment. Settings name the variable, and only `read_secret` reads it.
"""

import os
import re
from collections.abc import Sequence
from datetime import time
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from conf.section import Patterns, Seconds, Section, SettingsError, Variable, invalid, not_below, one_of, require
from udfs.alerts.pattern import LABELS, is_label_name
from udfs.alerts.static_labels import MATCHED, RESERVED

Pause = Annotated[float, Field(ge=0.01, le=604_800)]
TimeOut = Annotated[float, Field(ge=0.1, le=120)]
Name = Annotated[
    str,
    Field(min_length=1, max_length=100),
    require(
        re.compile(r"[^\W_][\w.\-]*").fullmatch,
        "give letters, digits, . _ - and no spaces, beginning with a letter or a digit",
    ),
]

CANARY = "canary"
"""The internal receiver of the canary's simulated twins."""

Url = Annotated[str, Field(max_length=2_000)]


def _is_label(name: str, known: ValidationInfo) -> str:
    """Refuse a name that is neither an alert's own label nor set by [[labels]], which are validated before."""
    names = [repr(one) for one in (*LABELS, *sorted(known.context or ()))]
    if repr(name) not in names:
        raise invalid(f"input should be {', '.join(names[:-1])} or {names[-1]}", "literal_error")
    return name


Label = Annotated[str, AfterValidator(_is_label)]
"""A label that a route or mute may match."""


def _is_new_label(name: str, known: ValidationInfo) -> str:
    if not is_label_name(name) or name.startswith("__"):
        raise invalid("give 1 to 64 letters, digits and _, not beginning with a digit or __, as Prometheus asks")
    if name in RESERVED:
        raise invalid("is reserved, because alerts, metrics or log lines have it; choose another name")
    if known.context is not None:
        known.context.add(name)
    return name


LabelValue = Annotated[
    str, Field(min_length=1, max_length=100), require(str.isprintable, "give printable characters without line breaks")
]

ReceiverType = Literal["alertmanager", "pagerduty", "webhook", "dingtalk", "feishu", "log"]

ALLOWED: dict[ReceiverType, frozenset[str]] = {
    "alertmanager": frozenset({"urls", "url", "url_env", "token_env"}),
    "pagerduty": frozenset({"url", "routing_key_env"}),
    "webhook": frozenset({"url", "url_env", "token_env"}),
    "dingtalk": frozenset({"url", "url_env", "secret_env"}),
    "feishu": frozenset({"url", "url_env", "secret_env"}),
    "log": frozenset(),
}
"""Receiver type to the keys that it may have."""


_BARE_URL = re.compile(r"[^\s?#@<>()\"'`]+")
_BASE_URLS = {
    "board_url": ("the board's address", ""),
    "runbook_base_url": ("the base URL of the runbooks", "; put {kind} where the name is not at the end"),
}
_NAME = re.compile(r"[A-Z][A-Z0-9]{0,20}(_[A-Z0-9]{1,20}){0,4}")


class Receiver(Section):
    """One address, or all replicas of one Alertmanager."""

    name: Name
    type: ReceiverType
    url: Url | None = Field(default=None, repr=False)  # may hold a token
    urls: tuple[Url, ...] = Field(default=(), max_length=16, repr=False)  # may hold a password
    url_env: Variable | None = None
    routing_key_env: Variable | None = None
    token_env: Variable | None = None
    secret_env: Variable | None = None
    timeout_seconds: TimeOut | None = None


class Route(Section):
    """Receivers of the alerts whose labels match. Without `match` a route takes every alert."""

    name: Name
    match: dict[Label, Patterns] = Field(default_factory=dict)
    receivers: tuple[str, ...] = Field(min_length=1, max_length=100)
    continue_: bool = Field(default=False, alias="continue")


Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
"""In the order of `date.weekday()`."""


def _is_a_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, such as "Asia"
        near = get_close_matches(name, sorted(available_timezones()), 1)
        hint = f"; did you mean {near[0]}?" if near else ", such as Europe/Berlin"
        raise invalid(f"give the name of an IANA time zone{hint}") from None
    return name


def _read_time(value: Any) -> time:
    """A time of day to the minute. TOML's own local time, 22:00:00, is one, too."""
    try:
        read = value if isinstance(value, time) else time.fromisoformat(value)
        if read.second or read.microsecond or read.tzinfo or value not in (read, f"{read:%H:%M}"):
            raise ValueError
    except (TypeError, ValueError):
        raise invalid('give a time of day from "00:00" to "23:59"') from None
    return read


TimeOfDay = Annotated[time, BeforeValidator(_read_time)]


class Mute(Section):
    """One of `[[mutes]]`: on each of its days from `from` until just before `to`, by the wall clock of the time zone.

    A window with `to` below `from` ends on the day after. `days` are those on which windows begin.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    match: dict[Label, Patterns]
    days: tuple[Day, ...] = Field(default=DAYS, min_length=1)
    from_: TimeOfDay = Field(alias="from")
    to: TimeOfDay
    time_zone: Annotated[str, Field(max_length=100), AfterValidator(_is_a_zone)] = "UTC"

    @field_validator("match")
    @classmethod
    def _matches_on_a_label(cls, match: dict[str, Any]) -> dict[str, Any]:
        if not match:
            raise invalid('name a label; { cluster = "*" } covers everything')
        return match

    @field_validator("to")
    @classmethod
    def _ends(cls, to: time, known: ValidationInfo) -> time:
        if to == known.data.get("from_"):
            raise invalid(
                f"must differ from from = {to:%H:%M}; to mute a kind permanently, set is_enabled = false in "
                "rules.kinds or an override"
            )
        return to


class LabelRule(Section):
    """One of `[[labels]]`: static labels of the alerts and series that match. Without `match`, of all."""

    match: dict[Annotated[str, one_of(MATCHED)], Patterns] = Field(default_factory=dict)
    set_: dict[Annotated[str, AfterValidator(_is_new_label)], LabelValue] = Field(
        alias="set", min_length=1, max_length=20
    )


class Canary(Section):
    """The simulated twin that tests the path from Kafka to a receiver. `interval_seconds` 0 injects none."""

    interval_seconds: Annotated[
        float,
        Field(ge=0, le=86_400),
        require(lambda number: not 0 < number < 1, "give 0 to inject none, or a number from 1 to 86400"),
    ]
    slo_seconds: Seconds


class OnCall(Section):
    enabled: bool
    resend_seconds: Annotated[float, Field(ge=1, le=86_400)]
    resolved_resend_seconds: Annotated[float, Field(ge=1, le=604_800)]
    backoff_min_seconds: Pause
    backoff_max_seconds: Annotated[Pause, not_below("backoff_min_seconds")]
    auth_retry_seconds: Pause
    delivery_failed_after_seconds: Pause
    digest_seconds: Annotated[float, Field(ge=0, le=600)]
    poll_seconds: Annotated[float, Field(ge=0.01, le=3_600)]
    watchdog_seconds: Annotated[float, Field(ge=1, le=86_400)]
    timeout_seconds: TimeOut
    max_firing_per_kind: Annotated[int, Field(ge=1, le=100_000)]
    board_url: Annotated[str, Field(max_length=500)]
    runbook_base_url: Annotated[str, Field(max_length=500)]
    receivers: tuple[Receiver, ...] = Field(min_length=1, max_length=100)
    routes: tuple[Route, ...] = Field(min_length=1, max_length=500)

    @field_validator("board_url", "runbook_base_url")
    @classmethod
    def _is_a_base_url(cls, url: str, field: ValidationInfo) -> str:
        if url and not (_is_http(url) and _BARE_URL.fullmatch(url)):
            what, more = _BASE_URLS[str(field.field_name)]
            raise invalid(f"give {what} as http(s)://host[:port][/path], without user, query or fragment{more}")
        return url.rstrip("/")

    @property
    def has_receivers(self) -> bool:
        """Whether a receiver is not the log, which a person who starts a command sees anyway."""
        return any(receiver.type != "log" for receiver in self.receivers)

    @field_validator("receivers")
    @classmethod
    def _are_usable(cls, receivers: tuple[Receiver, ...]) -> tuple[Receiver, ...]:
        _refuse_twins("receivers", [receiver.name for receiver in receivers])
        for number, receiver in enumerate(receivers):
            if receiver.name == CANARY:
                raise invalid(f"receivers[{number}].name = {CANARY!r} is reserved for the canary; choose another")
            _check(f"receivers[{number}]", receiver)
        return receivers

    @field_validator("routes")
    @classmethod
    def _lead_somewhere(cls, routes: tuple[Route, ...], known: ValidationInfo) -> tuple[Route, ...]:
        _refuse_twins("routes", [route.name for route in routes])
        names = {receiver.name for receiver in known.data.get("receivers", ())}
        for number, route in enumerate(routes):
            for name in route.receivers:
                if names and name not in names:
                    raise invalid(
                        f"routes[{number}].receivers = {name!r}: there is no such receiver; "
                        f"name one of {', '.join(sorted(names))}"
                    )
        if routes[-1].match:
            raise invalid(
                f"routes[{len(routes) - 1}].match: the last route, {routes[-1].name!r}, must have no match; "
                "add a route without match"
            )
        return routes


def read_secret(key: str, variable: str) -> str:
    """Return the variable's value. Raises SettingsError with key and variable if it is missing.

    Text that is no variable's name may be the secret itself and is not shown.
    """
    value = os.environ.get(variable, "").strip()
    if not value and not _NAME.fullmatch(variable):
        raise SettingsError(f"{key} must name an environment variable; give the NAME of the one that holds the secret")
    if not value:
        raise SettingsError(f"{key} = {variable!r}: the environment variable {variable} is empty or not set; set it")
    return value


def _check(key: str, receiver: Receiver) -> None:
    given = receiver.model_fields_set - {"name", "type", "timeout_seconds"}
    for name in sorted(given - ALLOWED[receiver.type]):
        raise invalid(f"{key}.{name}: not allowed for type {receiver.type}; remove it")
    if receiver.type == "pagerduty":
        if receiver.routing_key_env is None:
            raise invalid(f"{key}.routing_key_env is missing; name the environment variable that holds the routing key")
    elif receiver.type != "log" and len(given & {"url", "urls", "url_env"}) != 1:
        choices = "urls, url or url_env" if receiver.type == "alertmanager" else "url or url_env"
        raise invalid(f"{key}: {receiver.name!r} needs exactly one of {choices}")
    for url in (*receiver.urls, *([receiver.url] if receiver.url else [])):
        if not _is_http(url):
            raise invalid(f"{key}: a URL of {receiver.name!r} is not of the form http(s)://host[:port][/path]")


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _refuse_twins(key: str, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise invalid(f"{key}[{number}].name = {name!r} is used twice; names must be unique")
