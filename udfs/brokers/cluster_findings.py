"""Findings on a cluster's brokers, NameServers, clocks, collectors. Each rule names its nearest innocent case."""

import shlex
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Protocol

from udfs.alerts.alert import Finding, Incident, Transition, with_words, wording
from udfs.alerts.life import Evaluation, Reason, advance, end, step
from udfs.alerts.phrase import Fact, Phrase, phrase, plural, some_of
from udfs.alerts.prose import clock, number_of
from udfs.alerts.rules import KindRules, Rules
from udfs.brokers.cluster_state import BROKER_NO_DATA, BROKER_WITHOUT_MASTER, ClusterState
from udfs.brokers.rounds import SLOW_MS, Tick
from udfs.brokers.skew import ROUND_MS

CLUSTER_NO_DATA = "cluster_no_data"

NOT_ANSWERING, CLIENTS_SILENT, ANSWERS_SELDOM = "not_answering", "clients_silent", "answers_seldom"
COLLECTOR_SILENT, NOTHING_ARRIVES = "collector_silent", "nothing_arrives"
NO_MASTER = "no_master"

FOUND_MS = 40_000
"""After its last heartbeat a silent broker is found so late: a heartbeat interval, and the next one's delay."""

NO_DATA = {
    NOT_ANSWERING: wording(
        "the others do not answer the collector",
        "Check that {lacking} run and that the collector reaches them (network, ACL).",
    ),
    COLLECTOR_SILENT: wording(
        "its collector sends nothing", "Check that `balancewatch collect` for cluster {cluster} runs and reaches Kafka."
    ),
    NOTHING_ARRIVES: wording(
        "no heartbeat of a client arrives", "Check that the agents of cluster {cluster} run and reach Kafka."
    ),
}
"""Cause of a cluster without data → its reason and advice."""

WITHOUT_MASTER_MS = 30_000
"""Until every client has polled the route: a master that restarts is back sooner."""


def find_cluster_no_data(
    cluster_state: ClusterState, cluster: str, tick: Tick, without_data: frozenset[str], rules: Rules
) -> Iterator[Finding]:
    """Kind 15. A cluster gives no data when less than completeness_min of its brokers gives data for no_data_ms.

    Not without data: a cluster that lacks one broker of several, which is kind 16.
    """
    since_ms, now_ms = cluster_state.below_ms, tick.now_ms
    if since_ms is None or now_ms < since_ms + rules.no_data_ms:
        return
    cause = NOT_ANSWERING
    if tick.is_own:
        cause = NOTHING_ARRIVES if cluster_state.nothing_ms is not None else COLLECTOR_SILENT
    lacking, answering = sorted(without_data), len(tick.asked) - len(without_data)
    yield Finding(
        kind=CLUSTER_NO_DATA,
        cause=cause,
        severity="error",
        since_ms=since_ms,
        text=wording(
            plural(
                answering,
                "Only {number} of {brokers} of cluster {cluster} has given data since {time}: {reason}. The state of "
                "its groups is unknown; open alerts stay open.",
                "Only {number} of {brokers} of cluster {cluster} have given data since {time}: {reason}. The state of "
                "its groups is unknown; open alerts stay open.",
            ),
            NO_DATA[cause].advice,
        ).given(
            brokers=number_of(len(tick.asked), "broker"),
            cluster=cluster,
            time=clock(since_ms),
            reason=NO_DATA[cause].summary,
            lacking=some_of(lacking),
        ),
        labels={"cluster": cluster},
        evidence={"asked": sorted(tick.asked), "without_data": lacking},
        is_missing=True,
        is_ready=now_ms >= since_ms + rules.no_data_page_ms,
    )


def find_brokers_no_data(
    cluster_state: ClusterState, cluster: str, cluster_id: str | None, now_ms: int, rules: Rules
) -> Iterator[Finding]:
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
        not_answering = NOT_ANSWERING if broker_name in cluster_state.no_data_ms else CLIENTS_SILENT
        cause = ANSWERS_SELDOM if broker_name in seldom_ms else not_answering
        share = cluster_state.missed.share(broker_name)
        ready_ms = since_ms + rules.no_data_page_ms
        if cause == CLIENTS_SILENT:  # where heartbeats come late, each of them ends a silence that looks long
            ready_ms = max(ready_ms, cluster_state.silent_at_ms.get(broker_name, 0) + rules.no_data_page_ms - FOUND_MS)
        topics = cluster_state.topics.get(broker_name, 0)
        summary = phrase(
            "Broker {broker_name} of cluster {cluster} has given no data since {time}: it does not answer the "
            "collector."
        )
        if cause == ANSWERS_SELDOM:
            summary = phrase(
                "Broker {broker_name} of cluster {cluster} has missed {share:.0%} of the newest poll rounds since "
                "{time}: it answers the collector only intermittently."
            )
        elif cause == CLIENTS_SILENT:
            summary = phrase(
                "Broker {broker_name} of cluster {cluster} has given no data since {time}: none of its clients reaches "
                "it, although they reach other brokers."
            )
        forget = phrase(" If it was removed: balancewatch forget --cluster {cluster} --broker {broker_name}")
        text = wording(
            "{summary} It serves {topics}; alerts on its queues are inhibited by this one.",
            "Check that {broker_name} runs and is reachable (process, disk, network); restart it if not.{forget}",
        ).given(
            summary=summary.given(broker_name=broker_name, cluster=cluster, time=clock(since_ms), share=share),
            topics=number_of(topics, "topic"),
            broker_name=broker_name,
            forget="" if cause == ANSWERS_SELDOM else forget.given(cluster=cluster, broker_name=broker_name),
        )
        evidence: dict[str, Any] = {"topics": topics}
        if cause == ANSWERS_SELDOM:
            evidence["missed_rounds_share"] = share
        yield Finding(
            kind=BROKER_NO_DATA,
            cause=cause,
            severity="critical",
            since_ms=since_ms,
            text=text,
            labels={"cluster": cluster, "broker_name": broker_name},
            broker_name=broker_name,
            evidence=evidence,
            inhibited_by=cluster_id,
            is_missing=True,
            is_ready=now_ms >= ready_ms,
        )


def find_brokers_without_master(
    cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules
) -> Iterator[Finding]:
    """Kind 17. A broker is masterless when routes name only slaves of it. Not: a master that restarts."""
    for broker_name, since_ms in sorted(cluster_state.without_master_ms.items()):
        topics = cluster_state.topics.get(broker_name, 0)
        yield Finding(
            kind=BROKER_WITHOUT_MASTER,
            cause=NO_MASTER,
            severity="error",
            since_ms=since_ms,
            text=wording(
                "Broker {broker_name} of cluster {cluster} has had no master since {time}: producers cannot write "
                "to it, and ordered consumers get no locks. Its {topics} can be read only from slaves with "
                "slaveReadEnable = true (off by default).",
                "Bring the master of {broker_name} back (brokerId 0).",
            ).given(broker_name=broker_name, cluster=cluster, time=clock(since_ms), topics=number_of(topics, "topic")),
            labels={"cluster": cluster, "broker_name": broker_name},
            broker_name=broker_name,
            evidence={"topics": topics},
            inhibited_by=open_id(cluster_state, f"{BROKER_NO_DATA} {broker_name}", now_ms, rules),
            is_ready=now_ms >= since_ms + WITHOUT_MASTER_MS,
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


SLOW_COLLECTOR = "slow_collector"

SLOW_ROUNDS = "slow_rounds"
NO_CLOCK, EVENTS_DROPPED = "no_clock", "events_dropped"

SURE_GAPS = 3


def find_slow_collector(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[Finding]:
    """Kind 18. A cluster's rounds are slow when they come, or are meant to come, more than 30 s apart.

    Not slow: a cluster that was away once.
    """
    slow = [
        source for source in cluster_state.rounds.live(now_ms) if not source.is_own and source.interval_ms() > SLOW_MS
    ]
    sure = [source for source in slow if len(source.gaps_ms) >= SURE_GAPS or (source.reported_ms or 0) > SLOW_MS]
    interval_ms = cluster_state.rounds.interval_ms(now_ms)
    if not sure or interval_ms <= SLOW_MS:
        return
    known = cluster_state.incidents.get(SLOW_COLLECTOR)
    since_ms = known.started_at_ms if known else now_ms
    yield Finding(
        kind=SLOW_COLLECTOR,
        cause=SLOW_ROUNDS,
        severity="warning",
        since_ms=since_ms,
        text=wording(
            "The poll rounds of cluster {cluster} are {seconds} s apart. Changes between two rounds are missed: "
            "clients that alternate on a queue (double_consumed_queue), short freezes, quick reconnects. Other "
            "findings are up to two rounds late.",
            "Lower collector.interval_seconds. If the rounds themselves take that long, find the clients or "
            "brokers that do not answer (collector's log), or let a second collector read some of the groups.",
        ).given(cluster=cluster, seconds=round(interval_ms / 1000)),
        labels={"cluster": cluster},
        evidence={"interval_ms": interval_ms, "told_ms": max(one.reported_ms or 0 for one in sure) or None},
    )


def find_stopped_collectors(cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules) -> Iterator[Finding]:
    """Kind 15, of one collector: the groups and brokers that no other collector reads give no data.

    Not without data: those that another collector reads too; a broker that left service; a group that a person forgot.
    Silence counts while another collector continues, and not in a gap of all of them.
    """
    for name, source in cluster_state.rounds.stopped(now_ms).items():
        silent_ms = max(source.now_ms, cluster_state.rounds.resumed_ms)
        if now_ms <= silent_ms + source.lifetime_ms():
            continue
        groups = cluster_state.rounds.lost_groups(name, now_ms)
        brokers = sorted(cluster_state.rounds.lost_brokers(name, now_ms) - cluster_state.forgotten_ms.keys())
        if groups == [] and not brokers:
            continue
        lost = [number_of(len(groups), "group")] if groups else []
        lost += [phrase("all groups that no other collector reads")] if groups is None else []
        lost += [phrase("broker {broker_name}", broker_name=broker_name) for broker_name in brokers]
        yield Finding(
            kind=CLUSTER_NO_DATA,
            cause=COLLECTOR_SILENT,
            severity="error",
            since_ms=source.now_ms,
            text=wording(
                "Collector {collector} of cluster {cluster} has sent nothing since {time}, while another one runs. "
                "No other collector reads {lost}: their state is unknown, and no new alert fires for them.",
                "Check that collector {collector} runs and reaches Kafka, or let another collector read its part. "
                "If it was removed: balancewatch forget --cluster {cluster} --collector {quoted}",
            ).given(
                collector=name, cluster=cluster, time=clock(source.now_ms), lost=some_of(lost), quoted=shlex.quote(name)
            ),
            labels={"cluster": cluster, "collector": name},
            evidence={"collector": name, "groups": groups, "brokers": brokers},
            is_missing=True,
            is_ready=now_ms >= silent_ms + rules.no_data_page_ms,
        )


def find_no_clock(cluster: str, since_ms: int, *, has_ahead: bool) -> Finding:
    """Kind 15, cause no_clock. A cluster has no clock when its events arrive for no_data_page_ms, or three rounds,
    without a tick.
    """
    ahead = phrase(
        "The collector's clock is ahead of Kafka's, so its clock events are refused (clock_skew): correct it. "
    )
    return Finding(
        kind=CLUSTER_NO_DATA,
        cause=NO_CLOCK,
        severity="error",
        since_ms=since_ms,
        text=wording(
            "Cluster {cluster} has had no clock events since {time}, although other events arrive. Its groups are not "
            "evaluated: no alert on them fires or resolves.",
            "{ahead}Check that `balancewatch collect` for cluster {cluster} runs and reaches Kafka. Without a "
            "collector, `balancewatch run` sends the clock events; if it cannot, its log says why.",
        ).given(cluster=cluster, time=clock(since_ms), ahead=ahead if has_ahead else ""),
        labels={"cluster": cluster},
        is_missing=True,
    )


def find_dropped(cluster: str, shard: int, dropped: int, since_ms: int, inhibited_by: str | None) -> Finding:
    """Kind 15: events of one shard that waited too long for a tick (rest of the rule: streaming/queries/waiting.py)."""
    return Finding(
        kind=CLUSTER_NO_DATA,
        cause=EVENTS_DROPPED,
        severity="error",
        since_ms=since_ms,
        text=wording(
            "Shard {shard} has dropped the oldest {dropped} events of cluster {cluster} since {time}, because too "
            "many wait for a clock event, and continues to drop events. Kafka still has them.",
            "Check that the collector of cluster {cluster} runs and reaches Kafka. `balancewatch replay` evaluates "
            "the dropped events.",
        ).given(shard=shard, dropped=dropped, cluster=cluster, time=clock(since_ms)),
        labels={"cluster": cluster, "shard": str(shard)},
        evidence={"dropped": dropped, "shard": shard},
        inhibited_by=inhibited_by,
        is_missing=True,
    )


def find_dropped_sends(cluster: str, dropped: int, since_ms: int) -> Finding:
    """Kind 15: sends that waited too long for a tick (rest of the rule: udfs/producers/fleet.py)."""
    return Finding(
        kind=CLUSTER_NO_DATA,
        cause=EVENTS_DROPPED,
        severity="error",
        since_ms=since_ms,
        text=wording(
            "The oldest {dropped} runs of sends of cluster {cluster} were dropped, because too many wait for a "
            "clock event, and more will be. No alert on a broker covers the time before {time}. Kafka still has "
            "the events.",
            "Check that the collector of cluster {cluster} runs and reaches Kafka. Without a collector, "
            "`balancewatch run` sends the clock events; if it cannot, its log says why.",
        ).given(dropped=dropped, cluster=cluster, time=clock(since_ms)),
        labels={"cluster": cluster, "events": "sends"},
        evidence={"dropped": dropped},
        is_missing=True,
    )


class Dropping(Protocol):
    """Who drops the oldest events that wait for a clock event: their number since the newest one, and the incident."""

    dropped: int
    drop: Incident | None


def report_drop(
    state: Dropping, dropped: int, finding: Finding, now_ms: int, kind: KindRules, rules: Rules
) -> Iterator[Transition]:
    """Count a drop, and yield the alert of the first one since the newest clock event."""
    state.dropped += dropped
    if state.drop is None:
        state.drop, transition = advance(None, finding, Evaluation(now_ms), kind, rules)
        if transition is not None:
            yield transition


def end_drop(
    state: Dropping, now_ms: int, total: Phrase, reason: Reason = Reason.DATA_RETURNED
) -> Iterator[Transition]:
    """End the alert of a drop: a clock event covers what still waits, or the cluster is forgotten."""
    if state.drop is not None:
        over = end(state.drop, reason, Evaluation(max(now_ms, state.drop.written_ms)))
        yield with_words(over, total.given(number=state.dropped))
    state.drop, state.dropped = None, 0


NAME_SERVER_UNREACHABLE, CLUSTER_NAME_CONFLICT = "name_server_unreachable", "cluster_name_conflict"
SOME_UNREACHABLE, ALL_UNREACHABLE = "some_unreachable", "all_unreachable"
TWO_CLUSTERS = "two_clusters"

CONFLICT_MS = 30_000
"""A broker registers at each NameServer every 30 s: until then two of them may know two addresses of it."""


def find_name_servers(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[Finding]:
    """A NameServer is unreachable when no collector that is configured with it got an answer for two rounds.

    An error when none answers; a warning while another one does. Not unreachable: one that missed a single round.
    """
    sources = list(cluster_state.rounds.collectors(now_ms).values())
    listed = {name for source in sources for name in source.name_servers}
    reached = {name for source in sources for name in source.name_servers if name not in source.unreachable_ms}
    away = sorted(listed - reached)
    if not away:
        return
    effect = phrase(
        "Running clients keep their routes, but new clients cannot start, and routes do not change. The collector "
        "still polls the brokers."
    )
    if reached:
        effect = phrase("Clients and brokers use {name_servers} until then.", name_servers=some_of(sorted(reached)))
    rounds = [source for source in sources if source.unreachable_ms.keys() & set(away)]
    since_ms = min(source.unreachable_ms[name] for source in rounds for name in away if name in source.unreachable_ms)
    yield Finding(
        kind=NAME_SERVER_UNREACHABLE,
        cause=SOME_UNREACHABLE if reached else ALL_UNREACHABLE,
        severity="warning" if reached else "error",
        since_ms=since_ms,
        text=wording(
            plural(
                len(away),
                "NameServer {away} of cluster {cluster} has not answered since {time}. {effect}",
                "NameServer {away} of cluster {cluster} have not answered since {time}. {effect}",
            ),
            "Check that the NameServer process runs on {away} (mqnamesrv, port 9876) and that the collector reaches "
            "it.",
        ).given(away=some_of(away), cluster=cluster, time=clock(since_ms), effect=effect),
        labels={"cluster": cluster},
        evidence={"unreachable": away, "name_servers": sorted(listed)},
        is_ready=any(source.now_ms > since_ms for source in rounds),
    )


def find_name_conflict(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[Finding]:
    """Two clusters share one name when two live collectors got answers from brokers of the same names at
    other addresses.

    Not two clusters: collectors that share at least one broker; a broker that moved to another address meanwhile.
    """
    collectors = cluster_state.rounds.collectors(now_ms)
    pairs = []
    for one, other in combinations(collectors, 2):
        known, others = collectors[one].addresses, collectors[other].addresses
        common = known.keys() & others.keys()
        if common and all(known[name] != others[name] for name in common):
            pairs.append((one, other))
    if not pairs:
        return
    incident = cluster_state.incidents.get(CLUSTER_NAME_CONFLICT)
    since_ms = incident.started_at_ms if incident else now_ms
    names = sorted({name for pair in pairs for name in pair})
    yield Finding(
        kind=CLUSTER_NAME_CONFLICT,
        cause=TWO_CLUSTERS,
        severity="error",
        since_ms=since_ms,
        text=wording(
            "Collectors {collectors} have published two clusters under the name {cluster} since {time}: brokers "
            "with the same names have different addresses. Alerts on its groups mix both clusters and are "
            "inhibited.",
            "Give one of the collectors another collector.cluster, restart it, then run: balancewatch forget "
            "--cluster {cluster}",
        ).given(collectors=some_of(names), cluster=cluster, time=clock(since_ms)),
        labels={"cluster": cluster},
        evidence={"collectors": {name: collectors[name].addresses for name in names}},
        is_ready=now_ms >= since_ms + CONFLICT_MS,
    )


CLOCK_SKEW = "clock_skew"
CLOCK_AHEAD, CLOCK_OUT_OF_STEP = "clock_ahead", "clock_out_of_step"

AHEAD_OVER_MS = 120_000
"""A clock that sends no time from the future for this long has been corrected."""

NAMED = 5

ROLES = {"broker": phrase("brokers"), "client": phrase("clients"), "collector": phrase("collectors")}


def step_skew(cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules) -> Iterator[Transition]:
    findings = {finding.key: finding for finding in find_skew(cluster_state, cluster, now_ms)}
    return step(cluster_state.incidents, cluster_state.windows, CLOCK_SKEW, findings, Evaluation(now_ms), rules)


def find_skew(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[Finding]:
    """Kind 19. A clock is out of step when it is more than 10 s off Kafka's, and stays so; one finding a role.

    The time of a clock that is more than a minute ahead is refused, so it moves nothing. Not out of step: a source
    whose messages come as late as its rounds are apart, or may be where no clock that is accepted says how far that is.
    """
    over_ms = max(AHEAD_OVER_MS, 3 * cluster_state.interval_ms)
    cluster_state.ahead = {name: seen for name, seen in cluster_state.ahead.items() if now_ms < seen[0] + over_ms}
    ahead = {name: ahead_ms for name, (_, ahead_ms) in sorted(cluster_state.ahead.items())}
    if ahead:
        yield _skew_finding(cluster_state, cluster, "clock", CLOCK_AHEAD, ahead, now_ms)
    own_clocks = frozenset(name for name, source in cluster_state.rounds.sources.items() if source.is_own)
    out_of_step = cluster_state.skew.out_of_step(cluster_state.interval_ms or ROUND_MS, own_clocks, ahead.values())
    found = {role: dict(machines) for role, machines in out_of_step.items()}
    for skew in (skew for source in cluster_state.rounds.live(now_ms) for skew in source.skews):
        if skew.machine not in found.get("collector", {}):
            found.setdefault(skew.role, {}).setdefault(skew.machine, skew.ahead_ms)
    for role, machines in sorted(found.items()):
        yield _skew_finding(cluster_state, cluster, role, CLOCK_OUT_OF_STEP, machines, now_ms)


def _skew_finding(
    cluster_state: ClusterState, cluster: str, role: str, cause: str, machines: Mapping[str, int], now_ms: int
) -> Finding:
    known = cluster_state.incidents.get(f"{CLOCK_SKEW} {role}")
    since_ms = known.started_at_ms if known else now_ms
    worst = sorted(machines, key=lambda name: (-abs(machines[name]), name))
    off: list[str | Phrase] = []
    for name in worst[:NAMED]:
        by = phrase("{machine} by {seconds} s behind")
        by = phrase("{machine} by {seconds} s ahead") if machines[name] > 0 else by
        off.append(by.given(machine=name, seconds=round(abs(machines[name]) / 1000)))
    summary = phrase(
        "Clocks of {role} of cluster {cluster} have differed from Kafka's since {time}: {off}{more}. Findings use "
        "Kafka's time and stay correct; the times in the logs of these machines are wrong."
    )
    if cause == CLOCK_AHEAD:
        summary = phrase(
            "Clock events of cluster {cluster} have been ahead of Kafka's time since {time}: {off}{more}. They are "
            "quarantined, and no group is evaluated at them."
        )
    more = phrase(" and {number} more", number=len(worst) - NAMED) if len(worst) > NAMED else ""
    facts: dict[str, Fact] = {"role": ROLES.get(role, role), "cluster": cluster, "time": clock(since_ms), "off": off}
    text = wording(
        summary, "Correct the clock of {machines} (chrony or ntpd), or find out why its messages arrive late."
    ).given(**facts, more=more, machines=worst[:NAMED])
    names = sorted(machines)
    return Finding(
        kind=CLOCK_SKEW,
        cause=cause,
        severity="warning",
        since_ms=since_ms,
        text=text,
        labels={"cluster": cluster, "role": role},
        broker_name=",".join(names) if role == "broker" and len(names) <= NAMED else None,
        client_id=names[0] if role == "client" and len(names) == 1 else None,
        evidence={"role": role, "ahead_ms": dict(sorted(machines.items()))},
    )
