"""The sections `[oncall]`, `[[mutes]]`, `[[labels]]` and `[canary]`: receivers, routes, windows without alerts.

Secrets are in the environment. Settings name the variable, and only `read_secret` reads it.
"""

import os
import re
from datetime import time
from difflib import get_close_matches
from typing import Annotated, Literal, Self, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator
from pydantic_core.core_schema import ValidationInfo

from conf.section import Patterns, Section, SettingsError, Variable, between, invalid, not_below, one_of, require
from udfs.alerts.pattern import LABELS, is_label_name
from udfs.alerts.static_labels import MATCHED, RESERVED

Pause = Annotated[float, between(0.01, 604_800)]
TimeOut = Annotated[float, between(0.1, 120)]
Title = Annotated[str, Field(min_length=1, max_length=100)]
Name = Annotated[
    Title,
    require(
        re.compile(r"[^\W_][\w.\-]*").fullmatch,
        "give letters, digits, . _ - and no spaces, beginning with a letter or a digit",
    ),
]

CANARY = "canary"
"""The internal receiver of the canary's simulated twins."""


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


_URL = "http(s)://host[:port][/path]"
Url = Annotated[str, Field(max_length=2_000), require(_is_http, f"give {_URL}")]
BaseUrl = Annotated[
    str,
    Field(max_length=500),
    require(
        lambda url: not url or (_is_http(url) and re.fullmatch(r"[^\s?#@<>()\"'`]+", url)),
        f"give {_URL} without user, query or fragment, or nothing",
    ),
    AfterValidator(lambda url: url.rstrip("/")),
]


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


NewLabel = Annotated[str, AfterValidator(_is_new_label)]
LabelValue = Annotated[Title, require(str.isprintable, "give printable characters without line breaks")]

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


class Receiver(Section):
    """One address, or all replicas of one Alertmanager."""

    name: Annotated[Name, require(lambda name: name != CANARY, "is reserved for the canary; choose another")]
    type: ReceiverType
    url: Url | None = Field(default=None, repr=False)  # may hold a token
    urls: tuple[Url, ...] = Field(default=(), max_length=16, repr=False)  # may hold a password
    url_env: Variable | None = None
    routing_key_env: Variable | None = None
    token_env: Variable | None = None
    secret_env: Variable | None = None
    timeout_seconds: TimeOut | None = None

    @model_validator(mode="after")
    def _has_the_keys_of_its_type(self) -> Self:
        given = self.model_fields_set - {"name", "type", "timeout_seconds"}
        if foreign := given - ALLOWED[self.type]:
            raise invalid(f"{min(foreign)} is not allowed for type {self.type}; remove it")
        if self.type == "pagerduty" and self.routing_key_env is None:
            raise invalid("routing_key_env is missing; name the environment variable that holds the routing key")
        addresses = ALLOWED[self.type] & {"urls", "url", "url_env"}
        if self.type not in ("pagerduty", "log") and len(given & addresses) != 1:
            raise invalid(f"{self.name!r} needs exactly one of {', '.join(sorted(addresses))}")
        return self


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


_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:00)?", re.ASCII)
_HAS_TIME = require(lambda at: _TIME.fullmatch(str(at)), 'give a time of day from "00:00" to "23:59"')
TimeOfDay = Annotated[time, BeforeValidator(_HAS_TIME.func)]
"""TOML's own local time, 22:00:00, is one, too."""


class Mute(Section):
    """One of `[[mutes]]`: on each of its days from `from` until just before `to`, by the wall clock of the time zone.

    A window with `to` below `from` ends on the day after. `days` are those on which windows begin.
    """

    name: Title | None = None
    match: Annotated[dict[Label, Patterns], require(bool, 'name a label; { cluster = "*" } covers everything')]
    days: tuple[Day, ...] = Field(default=DAYS, min_length=1)
    from_: TimeOfDay = Field(alias="from")
    to: TimeOfDay
    time_zone: Annotated[str, Field(max_length=100), AfterValidator(_is_a_zone)] = "UTC"

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
    set_: dict[NewLabel, LabelValue] = Field(alias="set", min_length=1, max_length=20)


class Canary(Section):
    """The simulated twin that tests the path from Kafka to a receiver. `interval_seconds` 0 injects none."""

    interval_seconds: Annotated[
        float,
        between(0, 86_400),
        require(lambda number: not 0 < number < 1, "give 0 to inject none, or a number from 1 to 86400"),
    ]
    slo_seconds: Annotated[float, between(0, 604_800, is_open=True)]


class OnCall(Section):
    enabled: bool
    resend_seconds: Annotated[float, between(1, 86_400)]
    resolved_resend_seconds: Annotated[float, between(1, 604_800)]
    backoff_min_seconds: Pause
    backoff_max_seconds: Annotated[Pause, not_below("backoff_min_seconds")]
    auth_retry_seconds: Pause
    delivery_failed_after_seconds: Pause
    digest_seconds: Annotated[float, between(0, 600)]
    poll_seconds: Annotated[float, between(0.01, 3_600)]
    watchdog_seconds: Annotated[float, between(1, 86_400)]
    timeout_seconds: TimeOut
    max_firing_per_kind: Annotated[int, between(1, 100_000)]
    board_url: BaseUrl
    runbook_base_url: BaseUrl
    receivers: tuple[Receiver, ...] = Field(min_length=1, max_length=100)
    routes: tuple[Route, ...] = Field(min_length=1, max_length=500)

    @property
    def has_receivers(self) -> bool:
        """Whether a receiver is not the log, which a person who starts a command sees anyway."""
        return any(receiver.type != "log" for receiver in self.receivers)

    @field_validator("receivers", "routes")
    @classmethod
    def _have_unique_names(cls, named: tuple[Receiver | Route, ...]) -> tuple[Receiver | Route, ...]:
        names = [each.name for each in named]
        if twins := [name for name in names if names.count(name) > 1]:
            raise invalid(f"the name {twins[0]!r} is used twice; names must be unique")
        return named

    @field_validator("routes")
    @classmethod
    def _lead_somewhere(cls, routes: tuple[Route, ...], known: ValidationInfo) -> tuple[Route, ...]:
        names = {receiver.name for receiver in known.data.get("receivers", ())}
        for number, route in enumerate(routes):
            if names and (unknown := set(route.receivers) - names):
                raise invalid(
                    f"routes[{number}].receivers = {min(unknown)!r}: there is no such receiver; "
                    f"name one of {', '.join(sorted(names))}"
                )
        if routes[-1].match:
            raise invalid(f"the last route, {routes[-1].name!r}, must have no match; add a route without match")
        return routes


def read_secret(key: str, variable: str) -> str:
    """Return the variable's value. Raises SettingsError with key and variable if it is missing.

    Text that is no variable's name may be the secret itself and is not shown.
    """
    value = os.environ.get(variable, "").strip()
    if not value and not re.fullmatch(r"[A-Z][A-Z0-9]{0,20}(_[A-Z0-9]{1,20}){0,4}", variable):
        raise SettingsError(f"{key} must name an environment variable; give the NAME of the one that holds the secret")
    if not value:
        raise SettingsError(f"{key} = {variable!r}: the environment variable {variable} is empty or not set; set it")
    return value
