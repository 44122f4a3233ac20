"""The settings of `[oncall]` as what they stand for: receivers, routes, paces, and a policy for them."""

import random
from collections.abc import Mapping, Sequence

from conf.oncall import OnCall, read_secret
from conf.oncall import Receiver as ReceiverSettings
from conf.section import SettingsError
from streaming.oncall.alertmanager import Alertmanager
from streaming.oncall.backoff import Pace
from streaming.oncall.dingtalk import DingTalk
from streaming.oncall.feishu import Feishu
from streaming.oncall.links import Links
from streaming.oncall.log_receiver import LogReceiver
from streaming.oncall.mute import Mute
from streaming.oncall.notification_policy import NotificationPolicy
from streaming.oncall.outbox import Outbox, traits_of
from streaming.oncall.pagerduty import EVENTS_URL, PagerDuty
from streaming.oncall.posting import AddressError, TimeOuts
from streaming.oncall.receiver import Receiver
from streaming.oncall.webhook import Webhook
from udfs.alerts.routing import Route

LEASES = 4
"""A lease lasts as many resends, as Prometheus' does: one late renewal must not end an alert."""


def make_receivers(settings: OnCall, runbooks_url: str = "") -> dict[str, Receiver]:
    """By name; Alertmanager's replicas are `am[0]`, `am[1]`. `runbooks_url` is that of all settings, which know the
    board's own address; without it [oncall] alone says where the runbooks are.

    Raises SettingsError: the key, and what is missing.
    """
    links = Links(settings.board_url, runbooks_url or settings.runbooks_url)
    receivers: dict[str, Receiver] = {}
    for number, one in enumerate(settings.receivers):
        key = f"oncall.receivers[{number}]"
        try:
            made = _make(key, one, settings, links)
        except AddressError as error:
            raise SettingsError(f"{key} ({one.name}): {error}") from None
        receivers |= {receiver.name: receiver for receiver in made}
    return receivers


def names_of(receiver: ReceiverSettings) -> list[str]:
    """Of those that are made of it; Alertmanager's replicas have a number."""
    if receiver.type != "alertmanager":
        return [receiver.name]
    return [f"{receiver.name}[{number}]" for number in range(len(receiver.urls) or 1)]


def make_routes(settings: OnCall, receivers: Mapping[str, Receiver]) -> list[Route]:
    """In their order; a group of replicas stands for each of them."""
    return [
        Route(
            route.name,
            tuple(name for group in route.receivers for name in receivers if name == group or _is_replica(name, group)),
            {label: (globs,) if isinstance(globs, str) else tuple(globs) for label, globs in route.match.items()},
            route.continue_,
        )
        for route in settings.routes
    ]


def make_pace(settings: OnCall) -> Pace:
    return Pace(
        resend_ms=_ms(settings.resend_seconds),
        resolved_resend_ms=_ms(settings.resolved_resend_seconds),
        backoff_min_ms=_ms(settings.backoff_min_seconds),
        backoff_max_ms=_ms(settings.backoff_max_seconds),
        auth_retry_ms=_ms(settings.auth_retry_seconds),
        unreachable_ms=_ms(settings.delivery_failed_after_seconds),
        digest_ms=_ms(settings.digest_seconds),
    )


def make_desk(
    settings: OnCall,
    receivers: Mapping[str, Receiver],
    routes: list[Route],
    rng: random.Random,
    lost_after_ms: int | None = None,
    mutes: Sequence[Mute] = (),
) -> NotificationPolicy:
    """A policy that knows nothing yet, with an empty outbox for each receiver."""
    pace = make_pace(settings)
    quiet = [name for name, receiver in receivers.items() if isinstance(receiver, LogReceiver)]
    boxes = {name: Outbox(name, traits_of(receiver), pace, rng) for name, receiver in receivers.items()}
    return NotificationPolicy(
        routes,
        boxes,
        limit=settings.max_firing_per_kind,
        resend_ms=pace.resend_ms,
        quiet=quiet,
        lost_after_ms=lost_after_ms,
        mutes=mutes,
    )


def _make(key: str, one: ReceiverSettings, settings: OnCall, links: Links) -> list[Receiver]:
    seconds = one.timeout_seconds or settings.timeout_seconds
    time_outs = TimeOuts(connect=min(5.0, seconds), read=seconds, total=2 * seconds)
    token = read_secret(f"{key}.token_env", one.token_env) if one.token_env else None
    secret = read_secret(f"{key}.secret_env", one.secret_env) if one.secret_env else None
    if one.type == "log":
        return [LogReceiver(one.name, links)]
    if one.type == "pagerduty":
        routing_key = read_secret(f"{key}.routing_key_env", one.routing_key_env or "")
        return [PagerDuty(one.name, routing_key, url=one.url or EVENTS_URL, links=links, time_outs=time_outs)]
    urls = one.urls or (one.url or read_secret(f"{key}.url_env", one.url_env or ""),)
    if one.type == "alertmanager":
        lease = LEASES * settings.resend_seconds
        return [
            Alertmanager(
                name,
                url,
                lease_seconds=lease,
                token=token,
                links=links,
                time_outs=time_outs,
            )
            for name, url in zip(names_of(one), urls, strict=True)
        ]
    if one.type == "webhook":
        return [Webhook(one.name, urls[0], token=token, links=links, time_outs=time_outs)]
    chat = DingTalk if one.type == "dingtalk" else Feishu
    return [chat(one.name, urls[0], secret=secret, links=links, time_outs=time_outs)]


def _is_replica(name: str, group: str) -> bool:
    """Names of groups hold no brackets (conf/oncall.py)."""
    return name.startswith(f"{group}[")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
