"""Summaries and advice of a cluster's alerts."""

import shlex
from collections.abc import Sequence

from udfs.alerts.alert import Text
from udfs.alerts.prose import clock, count, some

WHY = {
    "not_answering": "the others do not answer the collector",
    "collector_silent": "its collector sends nothing",
    "nothing_arrives": "no heartbeat of a client arrives",
}


def describe_cluster_no_data(cluster: str, cause: str, without_data: Sequence[str], asked: int, since_ms: int) -> Text:
    """Return summary and advice for a cluster of which too few brokers give data."""
    answering = asked - len(without_data)
    advice = {
        "not_answering": f"Check that {some(without_data)} run and that the collector reaches them (network, ACL).",
        "collector_silent": f"Check that `balancewatch collect` for cluster {cluster} runs and reaches Kafka.",
        "nothing_arrives": f"Check that the agents of cluster {cluster} run and reach Kafka.",
    }[cause]
    return Text(
        f"Only {answering} of {count(asked, 'broker')} of cluster {cluster} {'has' if answering == 1 else 'have'} "
        f"given data since {clock(since_ms)}: {WHY[cause]}. The state of its groups is unknown; open alerts stay open.",
        advice,
    )


def describe_broker_no_data(
    cluster: str, broker_name: str, cause: str, topics: int, since_ms: int, missed_share: float = 0.0
) -> Text:
    """Return summary and advice for one broker without data, or with few."""
    serves = f"It serves {count(topics, 'topic')}; alerts on its queues are inhibited by this one."
    advice = f"Check that {broker_name} runs and is reachable (process, disk, network); restart it if not."
    if cause == "answers_seldom":
        return Text(
            f"Broker {broker_name} of cluster {cluster} has missed {missed_share:.0%} of the newest poll rounds since "
            f"{clock(since_ms)}: it answers the collector only intermittently. {serves}",
            advice,
        )
    why = (
        "none of its clients reaches it, although they reach other brokers"
        if cause == "clients_silent"
        else "it does not answer the collector"
    )
    return Text(
        f"Broker {broker_name} of cluster {cluster} has given no data since {clock(since_ms)}: {why}. {serves}",
        f"{advice} If it was removed: balancewatch forget --cluster {cluster} --broker {broker_name}",
    )


def describe_stopped_collector(
    cluster: str, name: str, groups: int | None, brokers: Sequence[str], since_ms: int
) -> Text:
    """Return summary and advice for one of several collectors that has stopped."""
    lost = [f"broker {broker_name}" for broker_name in brokers]
    lost = [
        *(
            []
            if groups == 0
            else ["all groups that no other collector reads" if groups is None else count(groups, "group")]
        ),
        *lost,
    ]
    return Text(
        f"Collector {name} of cluster {cluster} has sent nothing since {clock(since_ms)}, while another one runs. "
        f"No other collector reads {some(lost)}: their state is unknown, and no new alert fires for them.",
        f"Check that collector {name} runs and reaches Kafka, or let another collector read its part. If it was "
        f"removed: balancewatch forget --cluster {cluster} --collector {shlex.quote(name)}",
    )


def describe_name_servers(cluster: str, away: Sequence[str], reached: Sequence[str], since_ms: int) -> Text:
    """Return summary and advice for NameServers that do not answer the collector."""
    verb = "has" if len(away) == 1 else "have"
    effect = (
        f"Clients and brokers use {some(reached)} until then."
        if reached
        else "Running clients keep their routes, but new clients cannot start, and routes do not change. The "
        "collector still polls the brokers."
    )
    return Text(
        f"NameServer {some(away)} of cluster {cluster} {verb} not answered since {clock(since_ms)}. {effect}",
        f"Check that the NameServer process runs on {some(away)} (mqnamesrv, port 9876) and that the collector reaches "
        "it.",
    )


def describe_name_conflict(cluster: str, collectors: Sequence[str], since_ms: int) -> Text:
    """Return summary and advice for two clusters that publish under one name."""
    return Text(
        f"Collectors {some(collectors)} have published two clusters under the name {cluster} since {clock(since_ms)}: "
        "brokers with the same names have different addresses. Alerts on its groups mix both clusters and are "
        "inhibited.",
        f"Give one of the collectors another collector.cluster, restart it, then run: balancewatch forget --cluster "
        f"{cluster}",
    )


def describe_no_clock(cluster: str, since_ms: int, *, has_ahead: bool) -> Text:
    """Return summary and advice for a cluster whose events arrive without clock events."""
    ahead = (
        "The collector's clock is ahead of Kafka's, so its clock events are refused (clock_skew): correct it. "
        if has_ahead
        else ""
    )
    return Text(
        f"Cluster {cluster} has had no clock events since {clock(since_ms)}, although other events arrive. Its groups "
        "are not evaluated: no alert on them fires or resolves.",
        f"{ahead}Check that `balancewatch collect` for cluster {cluster} runs and reaches Kafka. Without a collector, "
        "`balancewatch run` sends the clock events; if it cannot, its log says why.",
    )


def describe_dropped(cluster: str, shard: int, dropped: int, since_ms: int) -> Text:
    """Return summary and advice for events dropped because too many wait for a clock event."""
    return Text(
        f"Shard {shard} has dropped the oldest {dropped} events of cluster {cluster} since {clock(since_ms)}, because "
        "too many wait for a clock event, and continues to drop events. Kafka still has them.",
        f"Check that the collector of cluster {cluster} runs and reaches Kafka. `balancewatch replay` evaluates the "
        "dropped events.",
    )


def describe_dropped_sends(cluster: str, dropped: int, since_ms: int) -> Text:
    """Return summary and advice for sends dropped because too many wait for a clock event."""
    return Text(
        f"The oldest {dropped} runs of sends of cluster {cluster} were dropped, because too many wait for a clock "
        f"event, and more will be. No alert on a broker covers the time before {clock(since_ms)}. Kafka still has the "
        "events.",
        f"Check that the collector of cluster {cluster} runs and reaches Kafka. Without a collector, `balancewatch "
        "run` sends the clock events; if it cannot, its log says why.",
    )


def describe_slow_collector(cluster: str, interval_ms: int) -> Text:
    """Return summary and advice for poll rounds that are far apart."""
    seconds = round(interval_ms / 1000)
    return Text(
        f"The poll rounds of cluster {cluster} are {seconds} s apart. Changes between two rounds are missed: clients "
        "that alternate on a queue (double_consumed_queue), short freezes, quick reconnects. Other findings are up to "
        "two rounds late.",
        "Lower collector.interval_seconds. If the rounds themselves take that long, find the clients or brokers that "
        "do not answer (collector's log), or let a second collector read some of the groups.",
    )


def describe_broker_without_master(cluster: str, broker_name: str, topics: int, since_ms: int) -> Text:
    """Return summary and advice for a broker without a master. Slaves serve reads only with slaveReadEnable."""
    return Text(
        f"Broker {broker_name} of cluster {cluster} has had no master since {clock(since_ms)}: producers cannot write "
        f"to it, and ordered consumers get no locks. Its {count(topics, 'topic')} can be read only from slaves with "
        "slaveReadEnable = true (off by default).",
        f"Bring the master of {broker_name} back (brokerId 0).",
    )
