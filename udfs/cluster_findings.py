"""What is wrong with a cluster's brokers as a monitor sees them; each rule names its nearest innocent case."""

from collections.abc import Iterator
from typing import Any

from udfs import cluster_prose
from udfs.alert import Finding, Incident
from udfs.broker_trouble import MASTERLESS_BROKER, UNHEARD_BROKER
from udfs.cluster_watch import ClusterWatch, Tick
from udfs.rules import Rules

UNHEARD_CLUSTER = "unheard_cluster"

NOT_ANSWERING, CLIENTS_SILENT, ANSWERS_SELDOM = "not_answering", "clients_silent", "answers_seldom"
COLLECTOR_SILENT, NOTHING_ARRIVES = "collector_silent", "nothing_arrives"
NO_MASTER = "no_master"

FOUND_MS = 40_000
"""After its last heartbeat a silent broker is found so late: a heartbeat interval, and the next one's delay."""

MASTERLESS_MS = 30_000
"""Until every client has polled the route: a master that restarts is back sooner."""


def find_unheard_cluster(
    watch: ClusterWatch, cluster: str, tick: Tick, unheard: frozenset[str], rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Rule 1. A cluster is unheard when less than completeness_min of its brokers is heard for unheard_ms.

    Not unheard: a cluster that lacks one broker of several, which is rule 2.
    """
    since_ms, now_ms = watch.below_ms, tick.now_ms
    if since_ms is None or now_ms < since_ms + rules.unheard_ms:
        return
    cause = NOT_ANSWERING
    if tick.is_own:
        cause = NOTHING_ARRIVES if watch.nothing_ms is not None else COLLECTOR_SILENT
    yield (
        UNHEARD_CLUSTER,
        Finding(
            kind=UNHEARD_CLUSTER,
            cause=cause,
            severity="error",
            since_ms=since_ms,
            text=cluster_prose.tell_unheard_cluster(cluster, cause, sorted(unheard), len(tick.asked), since_ms),
            labels={"cluster": cluster},
            evidence={"asked": sorted(tick.asked), "unheard": sorted(unheard)},
            is_missing=True,
            is_ready=now_ms >= since_ms + rules.unheard_page_ms,
        ),
    )


def find_unheard_brokers(
    watch: ClusterWatch, cluster: str, cluster_id: str | None, now_ms: int, rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Rule 2. A broker is unheard when it does not answer, or no client reaches it while its clients speak elsewhere.

    So is one that misses most rounds, though it answers now and then. Not unheard: a broker whose only client has
    stopped; one that missed a round; one whose topics people have moved elsewhere, when nobody asks it any more.
    """
    seldom_ms = watch.missed.seldom_ms
    for broker_name in sorted(watch.unheard_ms.keys() | watch.silent_ms.keys() | seldom_ms.keys()):
        places = (watch.unheard_ms, watch.silent_ms, seldom_ms)
        since_ms = min(place[broker_name] for place in places if broker_name in place)
        if now_ms < since_ms + rules.unheard_ms:
            continue
        cause = CLIENTS_SILENT
        if broker_name in seldom_ms:
            cause = ANSWERS_SELDOM
        elif broker_name in watch.unheard_ms:
            cause = NOT_ANSWERING
        share = watch.missed.share(broker_name)
        ready_ms = since_ms + rules.unheard_page_ms
        if cause == CLIENTS_SILENT:  # where heartbeats come late, each of them ends a silence that looks long
            ready_ms = max(ready_ms, watch.silent_at_ms.get(broker_name, 0) + rules.unheard_page_ms - FOUND_MS)
        evidence: dict[str, Any] = {"topics": watch.topics.get(broker_name, 0)}
        if cause == ANSWERS_SELDOM:
            evidence["missed_rounds_share"] = share
        topics = watch.topics.get(broker_name, 0)
        yield (
            f"{UNHEARD_BROKER} {broker_name}",
            Finding(
                kind=UNHEARD_BROKER,
                cause=cause,
                severity="critical",
                since_ms=since_ms,
                text=cluster_prose.tell_unheard_broker(cluster, broker_name, cause, topics, since_ms, share),
                labels={"cluster": cluster, "broker_name": broker_name},
                broker_name=broker_name,
                evidence=evidence,
                suppressed_by=cluster_id,
                is_missing=True,
                is_ready=now_ms >= ready_ms,
            ),
        )


def find_masterless(watch: ClusterWatch, cluster: str, now_ms: int, rules: Rules) -> Iterator[tuple[str, Finding]]:
    """Rule 3. A broker is masterless when routes name only slaves of it. Not: a master that restarts."""
    for broker_name, since_ms in sorted(watch.masterless_ms.items()):
        yield (
            f"{MASTERLESS_BROKER} {broker_name}",
            Finding(
                kind=MASTERLESS_BROKER,
                cause=NO_MASTER,
                severity="error",
                since_ms=since_ms,
                text=cluster_prose.tell_masterless(cluster, broker_name, watch.topics.get(broker_name, 0), since_ms),
                labels={"cluster": cluster, "broker_name": broker_name},
                broker_name=broker_name,
                evidence={"topics": watch.topics.get(broker_name, 0)},
                suppressed_by=open_id(watch, f"{UNHEARD_BROKER} {broker_name}", now_ms, rules),
                is_ready=now_ms >= since_ms + MASTERLESS_MS,
            ),
        )


def open_id(watch: ClusterWatch, key: str, now_ms: int, rules: Rules) -> str | None:
    """The incident's id, if it explains anything."""
    incident = watch.incidents.get(key)
    return incident.incident_id if incident and explains(incident, now_ms, rules) else None


def explains(incident: Incident, now_ms: int, rules: Rules) -> bool:
    """Whether others may stand under it: it has fired, or is young enough to be about to. What is off never fires."""
    kind = rules.of_kind(incident.kind)
    soon_ms = incident.started_at_ms + max(rules.unheard_page_ms, kind.pending_ms) + rules.settle_ms
    return kind.is_enabled and (incident.has_fired or now_ms < soon_ms)
