"""Receivers and routes as `[oncall]` configures them; one file per vendor."""

from typing import Any

from conf.oncall import OnCall, read_secret
from conf.oncall import Receiver as ReceiverSettings
from conf.section import SettingsError
from streaming.relay.notice import Links
from streaming.relay.receivers.alertmanager import Alertmanager
from streaming.relay.receivers.chat import DingTalk, Feishu
from streaming.relay.receivers.log import LogReceiver
from streaming.relay.receivers.pagerduty import EVENTS_URL, PagerDuty
from streaming.relay.receivers.posting import AddressError, HttpReceiver, Receiver
from streaming.relay.receivers.webhook import Webhook
from udfs.alerts.routing import Route

VENDORS: dict[str, type[HttpReceiver]] = {
    "alertmanager": Alertmanager,
    "pagerduty": PagerDuty,
    "webhook": Webhook,
    "dingtalk": DingTalk,
    "feishu": Feishu,
}

LEASES = 4
"""A lease lasts this many resend intervals, as in Prometheus: one late renewal must not end an alert."""


def make_receivers(settings: OnCall, runbooks_url: str = "", language: str = "en") -> dict[str, Receiver]:
    """Return the receivers by name; Alertmanager's replicas are `am[0]`, `am[1]`.

    `runbooks_url` comes from all settings, which know the board's address. Raises SettingsError with the key.
    """
    links, kept = Links(settings.board_url, runbooks_url, language), {"lease_seconds": LEASES * settings.resend_seconds}
    receivers: dict[str, Receiver] = {}
    for number, given in enumerate(settings.receivers):
        key = f"oncall.receivers[{number}]"
        secrets = {
            name: read_secret(f"{key}.{name}", variable)
            for name in ("url_env", "routing_key_env", "token_env", "secret_env")
            if (variable := getattr(given, name))
        }
        options: dict[str, Any] = {
            "links": links,
            "timeout_seconds": given.timeout_seconds or settings.timeout_seconds,
            "token": secrets.get("token_env"),
            "secret": secrets.get("routing_key_env", secrets.get("secret_env")),
            **(kept if given.type == "alertmanager" else {}),
        }
        urls = given.urls or (given.url or secrets.get("url_env", EVENTS_URL),)
        try:
            for name, url in zip(names_of(given), urls, strict=True):
                vendor = VENDORS.get(given.type)
                receivers[name] = vendor(name, url, **options) if vendor is not None else LogReceiver(name, links)
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
