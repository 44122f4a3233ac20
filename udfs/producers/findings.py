"""What producers' FaultItems say of a cluster's brokers, as findings; each rule names its nearest innocent case.

Judged at one moment of the fleet. The alert life cycle is udfs.alerts'; a condition that must last, or may break off
for a short while, is an Episode of the fleet.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from udfs.alerts.alert import Finding, Incident, Text, Transition, brokers_of, wording
from udfs.alerts.life import FIRING, Evaluation, step
from udfs.alerts.phrase import Phrase, Words, phrase, plural, some_of
from udfs.alerts.prose import clock, number_of
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_state import BROKER_ISOLATED, BROKER_NO_DATA, FAILING_BROKER, Gone, waits_under
from udfs.producers.attempts import QUIET_MS
from udfs.producers.board import Item
from udfs.producers.fleet import Episode, Fleet
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
    releases = sorted({item.client_version for item in avoided.avoiders.values()}, key=parse_client_version)
    until_ms, (least_ms, most_ms) = avoided.until_ms(), avoided.latencies_ms()
    took = phrase("{least_ms:,} ms") if least_ms == most_ms else phrase("{least_ms:,} to {most_ms:,} ms")
    why = phrase("their sends to it fail after {took}") if is_failing else phrase("it answered their sends in {took}")
    also: Words = ""
    if gone is not None and gone.is_notified:
        also = phrase(" It has no master.")
        also = phrase(" The broker gives no data either.") if gone.kind == BROKER_NO_DATA else also
    advice = phrase(
        "Check {broker_name}: disk and flush times, page cache, GC, send threads. Producers return without action."
    )
    if is_failing:
        advice = phrase(
            "Check that the master of {broker_name} is up and reachable from the producers' hosts; its log says why it "
            "refuses sends."
        )
    return wording(
        plural(
            len(avoided.avoiders),
            "{number} of {producers} has avoided {broker_name} (cluster {cluster}) since {time}, {until}{by_release}. "
            "Cause: {reason}.{also}",
            "{number} of {producers} have avoided {broker_name} (cluster {cluster}) since {time}, {until}{by_release}. "
            "Cause: {reason}.{also}",
        ),
        advice,
    ).given(
        producers=number_of(len(avoided.versions), "producer"),
        cluster=cluster,
        time=clock(since_ms),
        broker_name=avoided.broker_name,
        until=phrase("until at least {time}", time=clock(until_ms)) if until_ms else phrase("repeatedly"),
        by_release=_describe_releases(avoided, releases) if len(releases) > 1 else "",
        reason=why.given(took=took.given(least_ms=least_ms, most_ms=most_ms)),
        also=also,
    )


def _describe_releases(avoided: Avoided, releases: Sequence[str]) -> Phrase:
    reported = []
    for version in releases:
        until_ms = avoided.until_ms(version)
        of_version = sum(item.client_version == version for item in avoided.avoiders.values())
        of = phrase("{number} of {release} until {time}") if until_ms else phrase("{number} of {release}")
        reported.append(of.given(number=of_version, release=version, time=clock(until_ms or 0)))
    return phrase(" ({releases})", releases=reported)


def describe_evicted(cluster: str, broker_name: str, client_ids: Sequence[str], producers: int, since_ms: int) -> Text:
    return wording(
        "{number} of {producers} will never send to {broker_name} (cluster {cluster}) again: {client_ids}. The "
        "avoidance should have ended at {time}, but RocketMQ 5.1.4 waits for a reachability check that is off by "
        "default (apache/rocketmq issue 7812).",
        "Restart {who} now; then upgrade the client to 5.2.0 or newer, or set -Dcom.rocketmq.startDetectorEnable=true.",
    ).given(
        number=len(client_ids),
        producers=number_of(producers, "producer"),
        broker_name=broker_name,
        cluster=cluster,
        client_ids=some_of(client_ids),
        time=clock(since_ms),
        who=phrase("this producer") if len(client_ids) == 1 else phrase("these producers"),
    )


def describe_unavailable(
    cluster: str, stranded: Mapping[str, Stranded], alive: int, is_all: bool, since_ms: int
) -> Text:
    check = phrase("Most producers are fine: check the hosts and the network of these producers.")
    if is_all:
        check = phrase(
            "The brokers are slow or failing for most producers: check what they share (network, storage, NameServer)."
        )
    # pickOneAtLeast's broker is written into the shared queue list: up to 5.1.3, but for 4.9.8.
    versions = sorted({one.client_version for one in stranded.values()}, key=parse_client_version)
    releases_of = {version: parse_client_version(version) for version in versions}
    spoilt = [name for name, known in releases_of.items() if known < (5, 1, 4) and not (4, 9, 8) <= known < (5, 0, 0)]
    restart = phrase(
        "Then restart producers of {releases}: they may stay with one broker (apache/rocketmq issue 7779)."
    )
    return wording(
        plural(
            len(stranded),
            "{number} of {producers} of cluster {cluster} has avoided all of its brokers since {time}: {client_ids} "
            "({brokers}). Sends still go to these brokers.",
            "{number} of {producers} of cluster {cluster} have avoided all of their brokers since {time}: {client_ids} "
            "({brokers}). Sends still go to these brokers.",
        ),
        phrase("{first} {second}") if spoilt else check,
    ).given(
        producers=number_of(alive, "producer"),
        cluster=cluster,
        time=clock(since_ms),
        client_ids=some_of(sorted(stranded)),
        brokers=some_of(sorted({broker_name for one in stranded.values() for broker_name in one.brokers})),
        first=check,
        second=restart.given(releases=spoilt),
    )


BROKER_EVICTED, NO_AVAILABLE_BROKER = "broker_evicted", "no_available_broker"

SLOW_BROKER = "slow_broker"
PERMANENT_EVICTION = "permanent_eviction"
ALL_BROKERS, PRODUCER_HOST = "all_brokers", "producer_host"

USUAL_MS = 86_400_000
"""A producer without a quick send for this long is slow by nature: far away, or its messages are flushed in sync."""

SILENT_MS = 300_000
"""A producer that has sent nothing for this long may have been stopped: nothing is said of what it shuts out."""


def judge_fleet(fleet: Fleet, cluster: str, rules: Rules) -> Iterator[Transition]:
    """The alerts' transitions at `fleet.judged_ms`.

    An absence ends by arithmetic, with data or without; an eviction ends only by a send that gives data.
    """
    completeness = fleet.completeness(rules.fault_item_idle_ms, SILENT_MS)
    for kind, find in FINDERS:
        is_seen = kind != BROKER_EVICTED or completeness >= rules.completeness_min
        evaluation = Evaluation(fleet.judged_ms, completeness, is_seen)
        findings = {finding.key: finding for finding in find(fleet, cluster, rules)}
        yield from step(fleet.incidents, fleet.windows, kind, findings, evaluation, rules)


def find_isolated(fleet: Fleet, cluster: str, rules: Rules) -> Iterator[Finding]:
    """Kind 12. A broker is isolated when a share of its producers has avoided it for broker_isolated_hold_ms.

    It was also slow or failing for that long, or the last producer stays away for broker_isolated_clear_ms more.
    Breaks shorter than that end nothing. Not isolated: a broker that was slow for a moment, or restarted within half a
    minute; one that 5.1.4 producers have evicted, which is kind 13. While the cluster's own alert says that the broker
    is gone, that its sends fail is the same trouble, and not over when no producer sends there any more.
    """
    notified = {key.partition(" ")[2] for key in fleet.episodes if key.startswith(BROKER_ISOLATED)}
    for broker_name in sorted(notified | fleet.shut_out.keys() | fleet.gone.keys()):
        known, gone = fleet.fired(f"{BROKER_ISOLATED} {broker_name}"), fleet.gone.get(broker_name)
        finding = _find_isolated(fleet, cluster, broker_name, known, gone, rules)
        is_gone = gone is not None and gone.over_ms is None and known is not None and known.cause == FAILING_BROKER
        if known is not None and is_gone and (finding is None or not finding.is_ready):
            finding = Finding(  # as its producers reported it while they still sent there
                known.kind,
                known.cause,
                severity_of(known, gone),
                known.started_at_ms,
                known.text,
                known.labels,
                broker_name=known.broker_name,
                evidence=known.evidence,
                inhibited_by=known.inhibited_by,
                is_ready=known.state == FIRING,  # a firing one continues, a recovering one does not resolve
                figures=known.figures,
            )
        if finding is not None:
            yield finding


def _find_isolated(
    fleet: Fleet, cluster: str, broker_name: str, known: Incident | None, gone: Gone | None, rules: Rules
) -> Finding | None:
    """`known` is the broker's incident, if it has fired, and `gone` the cluster's alert that the broker is gone."""
    key, labels = f"{BROKER_ISOLATED} {broker_name}", {"cluster": cluster, "broker_name": broker_name}
    avoiders = {
        client_id: item
        for client_id, item in fleet.avoiders(broker_name).items()
        if not is_evicted(item, fleet.judged_ms, rules)
    }
    senders = fleet.senders(broker_name, rules.fault_item_idle_ms)
    enough = max(1, ceil(rules.broker_isolated_share * len(senders)))
    reached_ms = sorted(item.out_ms for item in avoiders.values())[enough - 1 : enough]
    episode = _episode(fleet, key, reached_ms[0] if reached_ms else None, rules)
    if episode is None:
        return None
    if not avoiders:
        return _in_a_break(BROKER_ISOLATED, labels, episode)
    cause = _cause(avoiders, known.cause if known else None)
    is_failing = cause == FAILING_BROKER
    avoided = Avoided(broker_name, avoiders, {name: fleet.producers[name].client_version for name in senders})
    return Finding(
        kind=BROKER_ISOLATED,
        cause=cause,
        severity=severity_of(known, gone) if is_failing else "warning",
        since_ms=episode.since_ms,
        text=describe_isolated(cluster, avoided, is_failing, episode.since_ms, gone if is_failing else None),
        labels=labels,
        broker_name=broker_name,
        evidence=avoided.evidence(),
        inhibited_by=_explained_by(fleet, broker_name)
        or (notified_before(fleet, broker_name, avoiders) if is_failing else None),
        is_ready=_is_ready(fleet, episode, rules) and _is_lasting(fleet, avoiders, episode, rules),
        figures=f"{len(avoiders)} of {len(senders)}",
    )


def _explained_by(fleet: Fleet, broker_name: str) -> str | None:
    """The open incident of producers that have no broker left, this one among them."""
    incident = fleet.fired(NO_AVAILABLE_BROKER)
    is_of_all = incident is not None and incident.cause == ALL_BROKERS and broker_name in brokers_of(incident)
    return incident.incident_id if incident and is_of_all else None


def find_evicted(fleet: Fleet, cluster: str, rules: Rules) -> Iterator[Finding]:
    """Kind 13. A broker is evicted by a 5.1.4 producer that keeps it unreachable broker_evicted_ms past its time.

    It sends elsewhere and never comes back by itself (#7812). Not evicted: a broker whose producer sends nothing
    anywhere; a 5.1.4 producer with a detector comes back within seconds of its next sends.
    """
    for broker_name, of_broker in fleet.shut_out.items():
        evicted = {
            client_id: item
            for client_id, item in of_broker.items()
            if is_evicted(item, fleet.judged_ms, rules) and _sends_elsewhere(fleet, client_id, broker_name, item, rules)
        }
        if not evicted:
            continue
        since_ms = min(item.start_timestamp_ms for item in evicted.values())
        yield Finding(
            kind=BROKER_EVICTED,
            cause=PERMANENT_EVICTION,
            severity="error",
            since_ms=since_ms,
            text=describe_evicted(
                cluster,
                broker_name,
                sorted(evicted),
                len(fleet.senders(broker_name, rules.fault_item_idle_ms)),
                since_ms,
            ),
            labels={"cluster": cluster, "broker_name": broker_name},
            client_id=next(iter(evicted)) if len(evicted) == 1 else None,
            broker_name=broker_name,
            evidence={
                "producers": {
                    client_id: {
                        "client_version": item.client_version,
                        "last_attempt_ms": item.seen_ms,
                        "start_timestamp_ms": item.start_timestamp_ms,
                    }
                    for client_id, item in sorted(evicted.items())
                }
            },
        )


def find_unavailable(fleet: Fleet, cluster: str, rules: Rules) -> Iterator[Finding]:
    """Kind 14. No broker is available to a producer that shuts out every one of the brokers it sends to at once.

    Critical where half of the producers or more are out of brokers, or sends fail; else a warning: slow sends arrive.
    Not without a broker: a producer that sends to one broker only, which kind 12 reports; a producer whose sends all
    arrive and were all slow for USUAL_MS, or since its first one (pickOneAtLeast sends all the same).
    """
    now_ms, idle_ms = fleet.judged_ms, rules.fault_item_idle_ms
    out_of = {
        broker_name: {client_id for client_id, item in of_broker.items() if not item.is_available}
        for broker_name, of_broker in fleet.shut_out.items()
    }
    stranded = {}
    for client_id in sorted(set().union(*out_of.values())):
        producer = fleet.producers[client_id]
        brokers = [name for name, seen_ms in producer.seen_ms.items() if seen_ms + idle_ms > now_ms]
        if (
            producer.is_alive(now_ms, SILENT_MS)
            and len(brokers) > 1
            and all(client_id in out_of.get(broker_name, ()) for broker_name in brokers)
        ):
            stranded[client_id] = Stranded(
                producer.client_version,
                {broker_name: fleet.shut_out[broker_name][client_id] for broker_name in sorted(brokers)},
            )
    usual = {client_id for client_id, one in stranded.items() if _is_usual(fleet, client_id, one)}
    stranded = {client_id: one for client_id, one in stranded.items() if client_id not in usual}
    began_ms = min((one.since_ms() for one in stranded.values()), default=None)
    episode = _episode(fleet, NO_AVAILABLE_BROKER, began_ms, rules)
    if episode is None:
        return
    if not stranded:
        yield _in_a_break(NO_AVAILABLE_BROKER, {"cluster": cluster}, episode)
        return
    alive = sum(producer.is_alive(now_ms, idle_ms) for producer in fleet.producers.values())
    known = fleet.fired(NO_AVAILABLE_BROKER)
    is_all = 2 * len(stranded) >= alive - len(usual) or (known is not None and known.cause == ALL_BROKERS)
    is_critical = is_all or any(one.has_failed() for one in stranded.values())
    is_critical |= known is not None and known.severity == "critical"
    yield Finding(
        kind=NO_AVAILABLE_BROKER,
        cause=ALL_BROKERS if is_all else PRODUCER_HOST,
        severity="critical" if is_critical else "warning",
        since_ms=episode.since_ms,
        text=describe_unavailable(cluster, stranded, alive, is_all, episode.since_ms),
        labels={"cluster": cluster},
        client_id=next(iter(stranded)) if len(stranded) == 1 else None,
        broker_name=",".join(sorted({name for one in stranded.values() for name in one.brokers})) or None,
        evidence={"producers": {client_id: one.evidence() for client_id, one in stranded.items()}, "alive": alive},
        is_ready=_is_ready(fleet, episode, rules),
    )


def _is_usual(fleet: Fleet, client_id: str, stranded: Stranded) -> bool:
    """Whether a producer has always been as slow. One that came during the trouble may be a restarted one."""
    producer, episode = fleet.producers[client_id], fleet.episodes.get(NO_AVAILABLE_BROKER)
    is_newcomer = episode is not None and producer.known_ms >= episode.since_ms
    is_slow_by_nature = producer.quick_ms + USUAL_MS <= fleet.judged_ms
    return is_slow_by_nature and not is_newcomer and not stranded.has_failed()


FINDERS: tuple[tuple[str, Callable[[Fleet, str, Rules], Iterator[Finding]]], ...] = (
    (NO_AVAILABLE_BROKER, find_unavailable),
    (BROKER_ISOLATED, find_isolated),
    (BROKER_EVICTED, find_evicted),
)
"""Kind and finder; causes come before what they explain."""


def is_evicted(item: Item, now_ms: int, rules: Rules) -> bool:
    """Whether its time has been over for long, yet it is not reachable, which attempts show of 5.1.4 only."""
    is_lost = not item.is_available and not item.reachable
    return is_lost and item.start_timestamp_ms + rules.broker_evicted_ms <= now_ms


def _sends_elsewhere(fleet: Fleet, client_id: str, broker_name: str, item: Item, rules: Rules) -> bool:
    """It sent to another broker when it could have come back, and still does."""
    elsewhere = (seen_ms for name, seen_ms in fleet.producers[client_id].seen_ms.items() if name != broker_name)
    # Inside a quick run the newest attempt is known to QUIET_MS.
    could_ms = item.start_timestamp_ms + rules.broker_evicted_ms - QUIET_MS
    return max(elsewhere, default=0) >= max(could_ms, fleet.judged_ms - SILENT_MS)


def _episode(fleet: Fleet, key: str, began_ms: int | None, rules: Rules) -> Episode | None:
    """The condition's episode after this moment; None when it has not held for broker_isolated_clear_ms.

    `began_ms` is since when it holds, None when it does not.
    """
    now_ms, episode = fleet.judged_ms, fleet.episodes.get(key)
    if began_ms is not None:
        episode = fleet.episodes.setdefault(key, Episode(began_ms, now_ms))
        episode.last_ms = now_ms
    elif episode is not None and now_ms - episode.last_ms >= rules.broker_isolated_clear_ms:
        del fleet.episodes[key]
        return None
    return episode


def _is_ready(fleet: Fleet, episode: Episode, rules: Rules) -> bool:
    """It holds now, and its hold is over."""
    return episode.last_ms == fleet.judged_ms >= episode.since_ms + rules.broker_isolated_hold_ms


def _is_lasting(fleet: Fleet, avoiders: Mapping[str, Item], episode: Episode, rules: Rules) -> bool:
    newest_ms = max(item.slow_ms for item in avoiders.values())
    back_ms = max(item.start_timestamp_ms for item in avoiders.values())
    return (
        newest_ms - episode.since_ms >= rules.broker_isolated_hold_ms
        or back_ms - fleet.judged_ms >= rules.broker_isolated_clear_ms
    )


def _in_a_break(kind: str, labels: dict[str, str], episode: Episode) -> Finding:
    """It does not hold now, in an episode that continues: that opens nothing, and ends nothing."""
    return Finding(kind, kind, "info", episode.since_ms, Text("", ""), labels, is_ready=False)


def _cause(avoiders: Mapping[str, Item], known: str | None) -> str:
    """Failing when most sends that shut it out failed. An open incident changes its mind only when all agree."""
    failed = [item.isolation for item in avoiders.values() if not item.is_available]
    if known is None:
        return FAILING_BROKER if 2 * sum(failed) > len(failed) else SLOW_BROKER
    is_unanimous = bool(failed) and len(set(failed)) == 1
    if not is_unanimous:
        return known
    return FAILING_BROKER if failed[0] else SLOW_BROKER


def severity_of(known: Incident | None, gone: Gone | None) -> str:
    """Return the severity of failing sends: for a gone broker that of the other alert, if it is graver, to the end."""
    is_critical = (gone is not None and gone.is_notified and gone.severity == "critical") or (
        known is not None and known.cause == FAILING_BROKER and known.severity == "critical"
    )
    return "critical" if is_critical else "error"


def notified_before(fleet: Fleet, broker_name: str, avoiders: Mapping[str, Item]) -> str | None:
    """Return the cluster's alert that the broker is gone if it fired first; after its end until a new slow attempt."""
    gone, own = fleet.gone.get(broker_name), fleet.incidents.get(f"{BROKER_ISOLATED} {broker_name}")
    if gone is None or not gone.has_fired or (own is not None and gone.inhibited_by == own.incident_id):
        return None
    if gone.over_ms is not None and max(item.slow_ms for item in avoiders.values()) > gone.over_ms:
        return None
    return waits_under(own, gone.incident_id)


def failing_brokers(fleet: Fleet) -> dict[str, str]:
    """Map each broker to the open alert that sends to it fail, unless that waits under the cluster's own."""
    return {
        one.broker_name: one.incident_id
        for one in fleet.incidents.values()
        if one.kind == BROKER_ISOLATED and one.cause == FAILING_BROKER and one.has_fired and one.broker_name
        if one.broker_name not in fleet.gone or one.inhibited_by != fleet.gone[one.broker_name].incident_id
    }
