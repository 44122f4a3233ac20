"""Receivers and routes as `[oncall]` configures them; one file per vendor."""

from collections.abc import Callable, Mapping
from typing import Any

from conf.oncall import OnCall, read_secret
from conf.oncall import Receiver as ReceiverSettings
from conf.section import SettingsError
from streaming.relay.notice import Links
from streaming.relay.receivers.alertmanager import Alertmanager
from streaming.relay.receivers.chat import DingTalk, Feishu
from streaming.relay.receivers.log import LogReceiver
from streaming.relay.receivers.pagerduty import EVENTS_URL, PagerDuty
from streaming.relay.receivers.posting import AddressError, Receiver, TimeOuts
from streaming.relay.receivers.webhook import Webhook
from udfs.alerts.routing import Route

LEASES = 4
"""A lease lasts this many resend intervals, as in Prometheus: one late renewal must not end an alert."""


def make_receivers(settings: OnCall, runbooks_url: str = "") -> dict[str, Receiver]:
    """Return the receivers by name; Alertmanager's replicas are `am[0]`, `am[1]`.

    `runbooks_url` comes from all settings, which know the board's address. Raises SettingsError with the key.
    """
    links = Links(settings.board_url, runbooks_url or settings.runbooks_url)
    receivers: dict[str, Receiver] = {}
    for number, receiver in enumerate(settings.receivers):
        key = f"oncall.receivers[{number}]"
        try:
            receivers |= {made.name: made for made in _make(key, receiver, settings, links)}
        except AddressError as error:
            raise SettingsError(f"{key} ({receiver.name}): {error}") from None
    return receivers


def names_of(receiver: ReceiverSettings) -> list[str]:
    """Return the names of the receivers made of these settings."""
    if receiver.type != "alertmanager":
        return [receiver.name]
    return [f"{receiver.name}[{number}]" for number in range(len(receiver.urls) or 1)]


def make_routes(settings: OnCall, receivers: Mapping[str, Receiver]) -> list[Route]:
    """Return the routes in order; an Alertmanager means each of its replicas."""
    return [
        Route(
            route.name,
            tuple(
                name for group in route.receivers for name in receivers if name == group or name.startswith(f"{group}[")
            ),
            dict(route.match.items()),
            route.continue_,
        )
        for route in settings.routes
    ]


def _make(key: str, given: ReceiverSettings, settings: OnCall, links: Links) -> list[Receiver]:
    def secret(name: str, variable: str | None) -> str | None:
        return read_secret(f"{key}.{name}", variable) if variable else None

    if given.type == "log":
        return [LogReceiver(given.name, links)]
    seconds = given.timeout_seconds or settings.timeout_seconds
    time_outs = TimeOuts(connect=min(5.0, seconds), read=seconds, total=2 * seconds)
    options: dict[str, Any] = {"links": links, "time_outs": time_outs}
    if given.type == "pagerduty":
        routing_key = read_secret(f"{key}.routing_key_env", given.routing_key_env or "")
        return [PagerDuty(given.name, routing_key, url=given.url or EVENTS_URL, **options)]
    urls = given.urls or (given.url or read_secret(f"{key}.url_env", given.url_env or ""),)
    options["token"] = secret("token_env", given.token_env)
    if given.type == "alertmanager":
        lease = LEASES * settings.resend_seconds
        pairs = zip(names_of(given), urls, strict=True)
        return [Alertmanager(name, url, lease_seconds=lease, **options) for name, url in pairs]
    kinds: dict[str, Callable[..., Receiver]] = {"webhook": Webhook, "dingtalk": DingTalk, "feishu": Feishu}
    return [kinds[given.type](given.name, urls[0], secret=secret("secret_env", given.secret_env), **options)]
