"""Summaries and advice of producer-side alerts: which producers avoid which broker, until when, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from udfs.alerts.alert import Text
from udfs.alerts.prose import clock, count, join_words, some
from udfs.brokers.trouble import BROKER_NO_DATA, Gone
from udfs.producers.item import Item
from udfs.rocketmq.version import parse_client_version

MOST_CLIENTS = 20
"""Maximum number of ClientIds in an alert's evidence."""


@dataclass(frozen=True)
class Avoided:
    """A broker and its producers at one moment: client_id → Item of those that avoid it, client_id → release of all."""

    broker_name: str
    avoiders: Mapping[str, Item]
    versions: Mapping[str, str]

    def until_ms(self, client_version: str | None = None) -> int | None:
        """Return when the last producer that avoids the broker now, of this release or of all, returns to it."""
        return max(
            (
                item.start_timestamp_ms
                for item in self.avoiders.values()
                if not item.is_available and client_version in (None, item.client_version)
            ),
            default=None,
        )

    def releases(self) -> list[str]:
        """Releases that avoid it, oldest first."""
        return sorted({item.client_version for item in self.avoiders.values()}, key=parse_client_version)

    def latencies_ms(self) -> tuple[int, int]:
        """The quickest and the slowest of the newest slow attempts."""
        latencies = [item.slow_latency_ms for item in self.avoiders.values()]
        return min(latencies, default=0), max(latencies, default=0)

    def evidence(self) -> dict[str, Any]:
        least_ms, most_ms = self.latencies_ms()
        return {
            "unavailable_producers": len(self.avoiders),
            "producers": len(self.versions),
            "until_ms": self.until_ms(),
            "latency_ms": {"least": least_ms, "most": most_ms},
            "failed": sum(item.isolation for item in self.avoiders.values()),
            "by_version": {
                version: {
                    "unavailable_producers": sum(i.client_version == version for i in self.avoiders.values()),
                    "producers": sum(known == version for known in self.versions.values()),
                    "until_ms": self.until_ms(version),
                }
                for version in sorted(set(self.versions.values()), key=parse_client_version)
            },
            "client_ids": sorted(self.avoiders)[:MOST_CLIENTS],
        }


@dataclass(frozen=True)
class Stranded:
    """A producer none of whose brokers is available: its release, and broker_name → Item."""

    client_version: str
    brokers: Mapping[str, Item]

    def since_ms(self) -> int:
        """When the last of them was shut out."""
        return max(item.out_ms for item in self.brokers.values())

    def has_failed(self) -> bool:
        """Whether its newest attempt at one of the brokers failed."""
        return any(item.isolation for item in self.brokers.values())

    def evidence(self) -> dict[str, Any]:
        return {
            "client_version": self.client_version,
            "until_ms": {broker_name: item.start_timestamp_ms for broker_name, item in self.brokers.items()},
        }


def describe_isolated(
    cluster: str, avoided: Avoided, is_failing: bool, since_ms: int, gone: Gone | None = None
) -> Text:
    """Summary and advice for a broker that a share of its producers avoids; `gone`, if others miss it, too."""
    name, releases = avoided.broker_name, avoided.releases()
    who = f"{len(avoided.avoiders)} of {count(len(avoided.versions), 'producer')}"
    avoid = "has avoided" if len(avoided.avoiders) == 1 else "have avoided"
    until_ms = avoided.until_ms()
    until = f"until at least {clock(until_ms)}" if until_ms else "repeatedly"
    by_release = f" ({_describe_releases(avoided, releases)})" if len(releases) > 1 else ""
    least_ms, most_ms = avoided.latencies_ms()
    took = f"{least_ms:,} ms" if least_ms == most_ms else f"{least_ms:,} to {most_ms:,} ms"
    why = f"their sends to it fail after {took}" if is_failing else f"it answered their sends in {took}"
    summary = f"{who} {avoid} {name} (cluster {cluster}) since {clock(since_ms)}, {until}{by_release}. Cause: {why}."
    if gone is not None and gone.is_notified:
        summary += " The broker gives no data either." if gone.kind == BROKER_NO_DATA else " It has no master."
    advice = (
        f"Check that the master of {name} is up and reachable from the producers' hosts; its log says why it refuses "
        "sends."
        if is_failing
        else f"Check {name}: disk and flush times, page cache, GC, send threads. Producers return without action."
    )
    return Text(summary, advice)


def _describe_releases(avoided: Avoided, releases: Sequence[str]) -> str:
    reported = []
    for version in releases:
        until_ms = avoided.until_ms(version)
        of_version = sum(item.client_version == version for item in avoided.avoiders.values())
        reported.append(f"{of_version} of {version}" + (f" until {clock(until_ms)}" if until_ms else ""))
    return join_words(reported)


def describe_evicted(cluster: str, broker_name: str, client_ids: Sequence[str], producers: int, since_ms: int) -> Text:
    """Return summary and advice for a broker that producers never return to."""
    who = "this producer" if len(client_ids) == 1 else "these producers"
    summary = (
        f"{len(client_ids)} of {count(producers, 'producer')} will never send to {broker_name} (cluster {cluster}) "
        f"again: {some(client_ids)}. The avoidance should have ended at {clock(since_ms)}, but RocketMQ 5.1.4 waits "
        "for a reachability check that is off by default (apache/rocketmq issue 7812)."
    )
    advice = (
        f"Restart {who} now; then upgrade the client to 5.2.0 or newer, or set -Dcom.rocketmq.startDetectorEnable=true."
    )
    return Text(summary, advice)


def describe_unavailable(
    cluster: str, stranded: Mapping[str, Stranded], alive: int, is_all: bool, since_ms: int
) -> Text:
    """Return summary and advice for producers that avoid every broker they send to."""
    brokers = sorted({broker_name for one in stranded.values() for broker_name in one.brokers})
    has = "has" if len(stranded) == 1 else "have"
    summary = (
        f"{len(stranded)} of {count(alive, 'producer')} of cluster {cluster} {has} avoided all of "
        f"{'its' if len(stranded) == 1 else 'their'} brokers since {clock(since_ms)}: {some(sorted(stranded))} "
        f"({some(brokers)}). Sends still go to these brokers."
    )
    advice = (
        "The brokers are slow or failing for most producers: check what they share (network, storage, NameServer)."
        if is_all
        else "Most producers are fine: check the hosts and the network of these producers."
    )
    spoilt = sorted(
        {one.client_version for one in stranded.values() if _rewrites_queues(one.client_version)},
        key=parse_client_version,
    )
    if spoilt:
        releases = join_words(spoilt)
        advice += f" Then restart producers of {releases}: they may stay with one broker (apache/rocketmq issue 7779)."
    return Text(summary, advice)


def _rewrites_queues(client_version: str) -> bool:
    """pickOneAtLeast's broker is written into the shared queue list: up to 5.1.3, but for 4.9.8."""
    release = parse_client_version(client_version)
    return release < (5, 1, 4) and not (4, 9, 8) <= release < (5, 0, 0)
