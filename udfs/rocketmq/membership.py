"""Who is in a consumer group, in each broker's own view (ConsumerManager and ConsumerGroupInfo, 4.x and 5.x).

A channel, not a ClientId, is the member: two channels with one ClientId live side by side in a broker's list, and
every client is handed both. Views are never merged: a client rebalances with the list of one random broker.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from udfs.rocketmq.heartbeat import ConsumerData, Heartbeat, filters_of, why_not_judged

JOINED, CHANGED, LEFT, EXPIRED = "JOINED", "CHANGED", "LEFT", "EXPIRED"

SCAN_MS = 10_000
"""ClientHousekeepingService: so much later a broker may find it."""

LISTING_MS = 25_000
"""Heartbeats that come closer together than this are no client's, which sends one every 30 s, but a list read often."""


@dataclass(slots=True)
class Member:
    """One channel of a group at one broker.

    `filters` has the topics of which it does not want every message, `consume_orderly` is None if not reported.
    `is_listed_only`: the broker lists the channel and does not report its heartbeats; `first_heartbeat_ms` and
    `last_heartbeat_ms` are then when it was listed, which says nothing of the process behind it. `gap_ms` is the time
    between its newest two heartbeats. `unjudged` is why it is not judged (verdict_reason).
    """

    client_id: str
    client_addr: str
    language: str
    client_version: str
    topics: list[str]
    strategy: str | None
    is_judged: bool
    first_heartbeat_ms: int
    last_heartbeat_ms: int
    has_reported_topics: bool = True
    consume_orderly: bool | None = None
    filters: dict[str, str] = field(default_factory=dict)
    is_listed_only: bool = False
    gap_ms: int | None = None
    unjudged: str | None = None
    is_push: bool = False

    def subscribes(self, topic: str) -> bool:
        """Whether it takes part in sharing out `topic`; one that never reported subscriptions does."""
        return topic in self.topics or not self.has_reported_topics


@dataclass(frozen=True)
class Change:
    """A channel joined or left one broker's view at `at_ms`, or its topics, filters or strategy are others."""

    broker_name: str
    member: Member
    change: str
    at_ms: int


@dataclass(frozen=True)
class Twins:
    """One ClientId on several channels of one broker, each proven alive after the others appeared."""

    broker_name: str
    client_id: str
    client_addrs: tuple[str, ...]
    since_ms: int


@dataclass
class Membership:
    """The views of one group: broker name → channel address → member."""

    views: dict[str, dict[str, Member]] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)  # "broker channel" → when, so that a late heartbeat stays out

    def register(self, heartbeat: Heartbeat, consumer: ConsumerData) -> Change | None:
        """registerConsumer: the heartbeat adds its channel to the broker's view, or refreshes it."""
        now_ms, addr = heartbeat.event_time_ms, heartbeat.client_addr
        if now_ms <= self.left.get(f"{heartbeat.broker_name} {addr}", -1):
            return None
        view = self.views.setdefault(heartbeat.broker_name, {})
        known = view.get(addr)
        topics = sorted({subscription.topic for subscription in consumer.subscriptions})
        if known is not None and known.client_id == heartbeat.client_id:
            is_newer = now_ms >= known.last_heartbeat_ms
            if now_ms > known.last_heartbeat_ms:
                known.gap_ms = now_ms - known.last_heartbeat_ms
                known.is_listed_only = bool(heartbeat.is_listed_only)
            known.last_heartbeat_ms = max(known.last_heartbeat_ms, now_ms)
            known.first_heartbeat_ms = min(known.first_heartbeat_ms, now_ms)
            has_changed = is_newer and _update(known, heartbeat, consumer, topics)
            return Change(heartbeat.broker_name, known, CHANGED, now_ms) if has_changed else None
        view[addr] = Member(
            heartbeat.client_id,
            addr,
            heartbeat.language,
            heartbeat.client_version,
            topics,
            consumer.strategy,
            (unjudged := why_not_judged(heartbeat.client_id, consumer)) is None,
            now_ms,
            now_ms,
            has_reported_topics=not heartbeat.without_sub,
            consume_orderly=consumer.consume_orderly,
            filters=filters_of(consumer),
            is_listed_only=bool(heartbeat.is_listed_only),
            unjudged=unjudged,
            is_push=consumer.consume_type == "CONSUME_PASSIVELY",
        )
        return Change(heartbeat.broker_name, view[addr], JOINED, now_ms)

    def displace(self, heartbeat: Heartbeat) -> Change | None:
        """Another ClientId on a channel we know: the port was used again, and who had it has left."""
        view = self.views.get(heartbeat.broker_name, {})
        known = view.get(heartbeat.client_addr)
        if known is None or known.client_id == heartbeat.client_id or known.last_heartbeat_ms > heartbeat.event_time_ms:
            return None
        self.drop(heartbeat.broker_name, heartbeat.client_addr)
        return Change(heartbeat.broker_name, known, LEFT, heartbeat.event_time_ms)

    def unregister(self, broker_name: str, client_addr: str, at_ms: int) -> Change | None:
        """UNREGISTER_CLIENT, or a closed channel: it leaves this broker's view at once."""
        self.left[f"{broker_name} {client_addr}"] = at_ms
        member = self.views.get(broker_name, {}).get(client_addr)
        if member is None or member.last_heartbeat_ms > at_ms:
            return None
        self.drop(broker_name, client_addr)
        return Change(broker_name, member, LEFT, at_ms)

    def expire(
        self, now_ms: int, expired_ms: int, without_data: frozenset[str], data_from_ms: int = 0
    ) -> Iterator[Change]:
        """scanNotActiveChannel: a channel silent for `expired_ms` has left; not at a broker without data.

        Silence before `data_from_ms` is missing data.
        """
        for broker_name in sorted(self.views.keys() - without_data):
            for member in sorted(self.views[broker_name].values(), key=lambda member: member.client_addr):
                left_at_ms = max(member.last_heartbeat_ms, data_from_ms) + expired_ms
                if left_at_ms <= now_ms:
                    self.drop(broker_name, member.client_addr)
                    yield Change(broker_name, member, EXPIRED, left_at_ms)
        self.left = {channel: at for channel, at in self.left.items() if at + expired_ms > now_ms}

    def twins(self, expired_ms: int) -> list[Twins]:
        """Every ClientId that several live channels of one broker carry, sorted.

        A channel that appears while the first falls silent is a reconnect, not a twin: each channel must have sent
        a heartbeat after the other's first one. Where the broker reports no heartbeats, both must be listed side by
        side for longer than a broker lists a dead one, `expired_ms` and a scan.
        """
        found = []
        for broker_name, view in sorted(self.views.items()):
            by_id: dict[str, list[Member]] = {}
            for member in view.values():
                by_id.setdefault(member.client_id, []).append(member)
            for client_id, members in sorted(by_id.items()):
                proven = [
                    member
                    for member in members
                    if any(
                        other is not member and _are_both_alive(member, other, expired_ms + SCAN_MS)
                        for other in members
                    )
                ]
                if proven:
                    found.append(
                        Twins(
                            broker_name,
                            client_id,
                            tuple(sorted(member.client_addr for member in proven)),
                            sorted(member.first_heartbeat_ms for member in proven)[1],
                        )
                    )
        return found

    def members(self) -> Iterator[tuple[str, Member]]:
        for broker_name, view in self.views.items():
            for member in view.values():
                yield broker_name, member

    def is_empty(self) -> bool:
        return not self.views

    def drop(self, broker_name: str, client_addr: str) -> None:
        del self.views[broker_name][client_addr]
        if not self.views[broker_name]:
            del self.views[broker_name]


def _update(known: Member, heartbeat: Heartbeat, consumer: ConsumerData, topics: list[str]) -> bool:
    """Take over what a newer heartbeat of the channel says; whether anything is different."""
    before = (known.topics, known.filters, known.strategy, known.has_reported_topics, known.unjudged)
    if not heartbeat.without_sub:
        known.topics, known.filters, known.has_reported_topics = topics, filters_of(consumer), True
    known.strategy = consumer.strategy or known.strategy
    if consumer.consume_orderly is not None:
        known.consume_orderly = consumer.consume_orderly
    if consumer.client_rebalance is not None:
        known.unjudged = why_not_judged(heartbeat.client_id, consumer)
        known.is_judged = known.unjudged is None
    return before != (known.topics, known.filters, known.strategy, known.has_reported_topics, known.unjudged)


def _are_both_alive(one: Member, other: Member, dead_listed_ms: int) -> bool:
    since_ms = max(one.first_heartbeat_ms, other.first_heartbeat_ms)
    until_ms = min(one.last_heartbeat_ms, other.last_heartbeat_ms)
    # Channels with heartbeats in the same millisecond, more often than clients send them, are read from a list by a
    # source that counts being listed as a heartbeat. Twins send at different times.
    is_together = one.last_heartbeat_ms == other.last_heartbeat_ms
    are_listings = is_together and all(each.gap_ms is not None and each.gap_ms < LISTING_MS for each in (one, other))
    if one.is_listed_only or other.is_listed_only or are_listings:
        return until_ms - since_ms > dead_listed_ms
    return one.last_heartbeat_ms > other.first_heartbeat_ms and other.last_heartbeat_ms > one.first_heartbeat_ms


def newest_heartbeats(membership: Membership, data_from_ms: int = 0) -> tuple[dict[str, int], set[str]]:
    """ClientId → its newest heartbeat at any broker, none before `data_from_ms`; and those whose heartbeats no broker
    reports, with the time at which they were listed.
    """
    heard: dict[str, int] = {}
    listed: dict[str, int] = {}
    for _, member in membership.members():
        of_kind = listed if member.is_listed_only else heard
        of_kind[member.client_id] = max(of_kind.get(member.client_id, 0), member.last_heartbeat_ms, data_from_ms)
    return {**listed, **heard}, listed.keys() - heard.keys()


_PID = re.compile(r"(?P<stem>[^@]+@[0-9]+)(?:#[0-9]+|@[0-9]+@[0-9a-z]+)?(?:@.*)?")


def process_of(client_id: str, client_addr: str | None) -> str:
    """Return `stem at host` of the process that opened the channel; channels of one process return one value.

    MQClientManager builds one MQClientInstance, with one channel a broker, for each ClientId. Java clients before 4.9
    share it among all consumers of a JVM (`ip@pid`); later ones carry `ip@pid#nanoTime` (ClientConfig,
    changeInstanceNameToPID) and gRPC clients `host@pid@index@nanoTime`, an instance per consumer. The stem is the part
    up to the pid, and the full ClientId where instanceName replaces the pid. The host of the address
    distinguishes containers that share `172.17.0.2@7`.
    """
    match = _PID.fullmatch(client_id)
    stem = match["stem"] if match else client_id
    host = (client_addr or "").rpartition(":")[0]
    return f"{stem} at {host}" if host else stem
