"""Receivers and routes as `[oncall]` configures them; one file per vendor."""

from collections.abc import Mapping
from typing import Any

from conf.oncall import OnCall, read_secret
from conf.oncall import Receiver as ReceiverSettings
from conf.section import SettingsError
from streaming.relay.notice import Links
from streaming.relay.receivers.alertmanager import Alertmanager
from streaming.relay.receivers.chat import DingTalk, Feishu
from streaming.relay.receivers.log import LogReceiver
from streaming.relay.receivers.pagerduty import EVENTS_URL, PagerDuty
from streaming.relay.receivers.posting import AddressError, Receiver
from streaming.relay.receivers.webhook import Webhook
from udfs.alerts.routing import Route

LEASES = 4
"""A lease lasts this many resend intervals, as in Prometheus: one late renewal must not end an alert."""


def make_receivers(settings: OnCall, runbooks_url: str = "") -> dict[str, Receiver]:
    """Return the receivers by name; Alertmanager's replicas are `am[0]`, `am[1]`.

    `runbooks_url` comes from all settings, which know the board's address. Raises SettingsError with the key.
    """
    links = Links(settings.board_url, runbooks_url)
    receivers: dict[str, Receiver] = {}
    for number, given in enumerate(settings.receivers):
        key = f"oncall.receivers[{number}]"
        secrets = {
            name: read_secret(f"{key}.{name}", variable)
            for name in ("url_env", "routing_key_env", "token_env", "secret_env")
            if (variable := getattr(given, name))
        }
        try:
            receivers |= {made.name: made for made in _make(given, secrets, settings, links)}
        except AddressError as error:
            raise SettingsError(f"{key} ({given.name}): {error}") from None
    return receivers


def names_of(receiver: ReceiverSettings) -> list[str]:
    """Return the names of the receivers made of these settings."""
    if receiver.type != "alertmanager":
        return [receiver.name]
    return [f"{receiver.name}[{number}]" for number in range(len(receiver.urls) or 1)]


def make_routes(settings: OnCall) -> list[Route]:
    """Return the routes in order; an Alertmanager means each of its replicas."""
    names = {receiver.name: names_of(receiver) for receiver in settings.receivers}
    return [
        Route(
            route.name,
            tuple(name for receiver in route.receivers for name in names[receiver]),
            dict(route.match.items()),
            route.continue_,
        )
        for route in settings.routes
    ]


def _make(given: ReceiverSettings, secrets: Mapping[str, str], settings: OnCall, links: Links) -> list[Receiver]:
    options: dict[str, Any] = {"links": links, "timeout_seconds": given.timeout_seconds or settings.timeout_seconds}
    urls = given.urls or (given.url or secrets.get("url_env", EVENTS_URL),)
    chats: dict[str, type[DingTalk | Feishu]] = {"dingtalk": DingTalk, "feishu": Feishu}
    match given.type:
        case "log":
            return [LogReceiver(given.name, links)]
        case "pagerduty":
            return [PagerDuty(given.name, secrets["routing_key_env"], url=urls[0], **options)]
        case "alertmanager":
            options |= {"token": secrets.get("token_env"), "lease_seconds": LEASES * settings.resend_seconds}
            return [Alertmanager(name, url, **options) for name, url in zip(names_of(given), urls, strict=True)]
        case "webhook":
            return [Webhook(given.name, urls[0], token=secrets.get("token_env"), **options)]
    return [chats[given.type](given.name, urls[0], secret=secrets.get("secret_env"), **options)]
