"""What is wrong with a cluster's brokers as a monitor sees them; each rule names its nearest innocent case."""

from collections.abc import Iterator
from typing import Any

from udfs.alerts.alert import Finding, Incident
from udfs.alerts.rules import Rules
from udfs.brokers import cluster_prose
from udfs.brokers.cluster_state import ClusterState, Tick
from udfs.brokers.trouble import BROKER_NO_DATA, BROKER_WITHOUT_MASTER

CLUSTER_NO_DATA = "cluster_no_data"

NOT_ANSWERING, CLIENTS_SILENT, ANSWERS_SELDOM = "not_answering", "clients_silent", "answers_seldom"
COLLECTOR_SILENT, NOTHING_ARRIVES = "collector_silent", "nothing_arrives"
NO_MASTER = "no_master"

FOUND_MS = 40_000
"""After its last heartbeat a silent broker is found so late: a heartbeat interval, and the next one's delay."""

WITHOUT_MASTER_MS = 30_000
"""Until every client has polled the route: a master that restarts is back sooner."""


def find_cluster_no_data(
    cluster_state: ClusterState, cluster: str, tick: Tick, without_data: frozenset[str], rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Kind 15. A cluster gives no data when less than completeness_min of its brokers gives data for no_data_ms.

    Not without data: a cluster that lacks one broker of several, which is kind 16.
    """
    since_ms, now_ms = cluster_state.below_ms, tick.now_ms
    if since_ms is None or now_ms < since_ms + rules.no_data_ms:
        return
    cause = NOT_ANSWERING
    if tick.is_own:
        cause = NOTHING_ARRIVES if cluster_state.nothing_ms is not None else COLLECTOR_SILENT
    yield (
        CLUSTER_NO_DATA,
        Finding(
            kind=CLUSTER_NO_DATA,
            cause=cause,
            severity="error",
            since_ms=since_ms,
            text=cluster_prose.describe_cluster_no_data(
                cluster, cause, sorted(without_data), len(tick.asked), since_ms
            ),
            labels={"cluster": cluster},
            evidence={"asked": sorted(tick.asked), "without_data": sorted(without_data)},
            is_missing=True,
            is_ready=now_ms >= since_ms + rules.no_data_page_ms,
        ),
    )


def find_brokers_no_data(
    cluster_state: ClusterState, cluster: str, cluster_id: str | None, now_ms: int, rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Kind 16. A broker gives no data: it does not answer, or no client reaches it while its clients speak elsewhere.

    So is one that misses most rounds, though it answers now and then. Not without data: a broker whose only client has
    stopped; one that missed a round; one whose topics people have moved elsewhere, when nobody asks it any more.
    """
    seldom_ms = cluster_state.missed.seldom_ms
    for broker_name in sorted(cluster_state.no_data_ms.keys() | cluster_state.silent_ms.keys() | seldom_ms.keys()):
        places = (cluster_state.no_data_ms, cluster_state.silent_ms, seldom_ms)
        since_ms = min(place[broker_name] for place in places if broker_name in place)
        if now_ms < since_ms + rules.no_data_ms:
            continue
        cause = CLIENTS_SILENT
        if broker_name in seldom_ms:
            cause = ANSWERS_SELDOM
        elif broker_name in cluster_state.no_data_ms:
            cause = NOT_ANSWERING
        share = cluster_state.missed.share(broker_name)
        ready_ms = since_ms + rules.no_data_page_ms
        if cause == CLIENTS_SILENT:  # where heartbeats come late, each of them ends a silence that looks long
            ready_ms = max(ready_ms, cluster_state.silent_at_ms.get(broker_name, 0) + rules.no_data_page_ms - FOUND_MS)
        evidence: dict[str, Any] = {"topics": cluster_state.topics.get(broker_name, 0)}
        if cause == ANSWERS_SELDOM:
            evidence["missed_rounds_share"] = share
        topics = cluster_state.topics.get(broker_name, 0)
        yield (
            f"{BROKER_NO_DATA} {broker_name}",
            Finding(
                kind=BROKER_NO_DATA,
                cause=cause,
                severity="critical",
                since_ms=since_ms,
                text=cluster_prose.describe_broker_no_data(cluster, broker_name, cause, topics, since_ms, share),
                labels={"cluster": cluster, "broker_name": broker_name},
                broker_name=broker_name,
                evidence=evidence,
                inhibited_by=cluster_id,
                is_missing=True,
                is_ready=now_ms >= ready_ms,
            ),
        )


def find_brokers_without_master(
    cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Kind 17. A broker is masterless when routes name only slaves of it. Not: a master that restarts."""
    for broker_name, since_ms in sorted(cluster_state.without_master_ms.items()):
        yield (
            f"{BROKER_WITHOUT_MASTER} {broker_name}",
            Finding(
                kind=BROKER_WITHOUT_MASTER,
                cause=NO_MASTER,
                severity="error",
                since_ms=since_ms,
                text=cluster_prose.describe_broker_without_master(
                    cluster, broker_name, cluster_state.topics.get(broker_name, 0), since_ms
                ),
                labels={"cluster": cluster, "broker_name": broker_name},
                broker_name=broker_name,
                evidence={"topics": cluster_state.topics.get(broker_name, 0)},
                inhibited_by=open_id(cluster_state, f"{BROKER_NO_DATA} {broker_name}", now_ms, rules),
                is_ready=now_ms >= since_ms + WITHOUT_MASTER_MS,
            ),
        )


def open_id(cluster_state: ClusterState, key: str, now_ms: int, rules: Rules) -> str | None:
    """The incident's id, if it explains anything."""
    incident = cluster_state.incidents.get(key)
    return incident.incident_id if incident and explains(incident, now_ms, rules) else None


def explains(incident: Incident, now_ms: int, rules: Rules) -> bool:
    """Whether others may stand under it: it has fired, or is young enough to be about to. What is off never fires."""
    kind = rules.of_kind(incident.kind)
    soon_ms = incident.started_at_ms + max(rules.no_data_page_ms, kind.pending_ms) + rules.settle_ms
    return kind.is_enabled and (incident.has_fired or now_ms < soon_ms)
