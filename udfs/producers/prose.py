"""Producer-side alerts as a colleague would say them: who avoids which broker, until when, why, what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from udfs.alerts.alert import Text
from udfs.alerts.prose import clock, count, join_words, some
from udfs.brokers.trouble import BROKER_NO_DATA, Gone
from udfs.producers.item import Item
from udfs.rocketmq.version import parse_client_version

MOST_CLIENTS = 20
"""So many ClientIds an alert's evidence names."""


@dataclass(frozen=True)
class Avoided:
    """A broker and its producers at one moment: client_id → Item of those that avoid it, → release of all."""

    broker_name: str
    avoiders: Mapping[str, Item]
    versions: Mapping[str, str]

    def until_ms(self, client_version: str | None = None) -> int | None:
        """When the last that is out now, of this release or of all, comes back as things stand."""
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
    avoid = "avoids" if len(avoided.avoiders) == 1 else "avoid"
    until_ms = avoided.until_ms()
    until = f"until {clock(until_ms)} as things stand" if until_ms else "again and again"
    by_release = f" ({_describe_releases(avoided, releases)})" if len(releases) > 1 else ""
    least_ms, most_ms = avoided.latencies_ms()
    took = f"{least_ms:,} ms" if least_ms == most_ms else f"{least_ms:,} to {most_ms:,} ms"
    why = f"their sends to it fail, after {took}" if is_failing else f"it answered their sends in {took}"
    summary = f"{who} {avoid} {name} (cluster {cluster}) since {clock(since_ms)}, {until}{by_release}. Why: {why}."
    if gone is not None and gone.is_notified:
        summary += " The cluster has no data of it either." if gone.kind == BROKER_NO_DATA else " It has no master."
    advice = (
        f"Is the master of {name} up, and does its port answer from the producers' hosts? Its log says why it refuses."
        if is_failing
        else f"Look at {name}: disk and flush times, page cache, GC, send threads. Producers come back by themselves."
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
    """Summary and advice for a broker that producers never come back to."""
    who, whose, them = ("this producer", "Its", "it") if len(client_ids) == 1 else ("these producers", "Their", "them")
    summary = (
        f"{len(client_ids)} of {count(producers, 'producer')} will never send to {broker_name} (cluster {cluster}) "
        f"again: {some(client_ids)}. {whose} time was over at {clock(since_ms)}, but RocketMQ 5.1.4 waits for the "
        f"broker to be reachable, and nothing shows {them} so (#7812)."
    )
    advice = (
        f"Restart {who} now; then upgrade the client to 5.2.0 or newer, or set -Dcom.rocketmq.startDetectorEnable=true."
    )
    return Text(summary, advice)


def describe_unavailable(
    cluster: str, stranded: Mapping[str, Stranded], alive: int, is_all: bool, since_ms: int
) -> Text:
    """Summary and advice for producers that shut out every broker they send to."""
    brokers = sorted({broker_name for one in stranded.values() for broker_name in one.brokers})
    find = "finds" if len(stranded) == 1 else "find"
    summary = (
        f"{len(stranded)} of {count(alive, 'producer')} of cluster {cluster} {find} no broker available since "
        f"{clock(since_ms)}: {some(sorted(stranded))} shut out {some(brokers)}, and send to them all the same."
    )
    advice = (
        "The brokers are slow or failing for everybody: look at what they share, network, storage, NameServer."
        if is_all
        else "Most producers are well: look at these producers' hosts and their network."
    )
    spoilt = sorted(
        {one.client_version for one in stranded.values() if _rewrites_queues(one.client_version)},
        key=parse_client_version,
    )
    if spoilt:
        advice += f" Restart producers of {join_words(spoilt)} afterwards: they may keep sending to one broker (#7779)."
    return Text(summary, advice)


def _rewrites_queues(client_version: str) -> bool:
    """pickOneAtLeast's broker is written into the shared queue list: up to 5.1.3, but for 4.9.8."""
    release = parse_client_version(client_version)
    return release < (5, 1, 4) and not (4, 9, 8) <= release < (5, 0, 0)
