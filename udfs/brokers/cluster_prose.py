"""Summaries and advice of a cluster's own alerts, as a colleague would say them."""

import shlex
from collections.abc import Sequence

from udfs.alerts.alert import Text
from udfs.alerts.prose import clock, count, some

WHY = {
    "not_answering": "they do not answer the collector",
    "collector_silent": "its collector has sent nothing",
    "nothing_arrives": "no client's heartbeat has arrived",
}


def describe_cluster_no_data(cluster: str, cause: str, without_data: Sequence[str], asked: int, since_ms: int) -> Text:
    """Too few of a cluster's brokers give data to judge it."""
    heard = asked - len(without_data)
    advice = {
        "not_answering": f"See whether the collector reaches {some(without_data)} (network, ACL), and if they run.",
        "collector_silent": f"See whether `balancewatch collect` for cluster {cluster} runs and reaches Kafka.",
        "nothing_arrives": f"See whether the agents of cluster {cluster} run and reach Kafka.",
    }[cause]
    return Text(
        f"Only {heard} of {count(asked, 'broker')} of cluster {cluster} {'gives' if heard == 1 else 'give'} data since "
        f"{clock(since_ms)}: {WHY[cause]}. What its groups do is unknown; no alert of it ends meanwhile.",
        advice,
    )


def describe_broker_no_data(
    cluster: str, broker_name: str, cause: str, topics: int, since_ms: int, missed_share: float = 0.0
) -> Text:
    """One broker gives no data, or hardly."""
    serves = f"It serves {count(topics, 'topic')}; what is wrong in its queues is listed under this alert."
    advice = f"See whether {broker_name} runs and can be reached (process, disk, network); restart it if not."
    if cause == "answers_seldom":
        return Text(
            f"Broker {broker_name} of cluster {cluster} has missed {missed_share:.0%} of the newest rounds since "
            f"{clock(since_ms)}: it answers the collector now and then only. {serves}",
            advice,
        )
    why = (
        "none of its clients reaches it, though they reach other brokers"
        if cause == "clients_silent"
        else "it does not answer the collector"
    )
    return Text(
        f"Broker {broker_name} of cluster {cluster} gives no data since {clock(since_ms)}: {why}. {serves}",
        f"{advice} If it is gone for good: balancewatch forget --cluster {cluster} --broker {broker_name}",
    )


def describe_stopped_collector(
    cluster: str, name: str, groups: int | None, brokers: Sequence[str], since_ms: int
) -> Text:
    """One of several collectors has stopped."""
    lost = [f"broker {broker_name}" for broker_name in brokers]
    lost = [
        *([] if groups == 0 else ["all groups that no other reads" if groups is None else count(groups, "group")]),
        *lost,
    ]
    return Text(
        f"Collector {name} of cluster {cluster} has sent nothing since {clock(since_ms)}, while another goes on. "
        f"Nobody else reads {some(lost)}: what is so there is unknown, and pages nobody.",
        f"See whether the collector {name} runs and reaches Kafka, or let another read its part. If it is gone for "
        f"good: balancewatch forget --cluster {cluster} --collector {shlex.quote(name)}",
    )


def describe_name_servers(cluster: str, away: Sequence[str], reached: Sequence[str], since_ms: int) -> Text:
    """NameServers that do not answer the collector."""
    verb = "does" if len(away) == 1 else "do"
    effect = (
        f"Clients and brokers use {some(reached)} meanwhile."
        if reached
        else "Clients keep their routes, new clients cannot start, and no route changes. Brokers are still polled."
    )
    return Text(
        f"NameServer {some(away)} of cluster {cluster} {verb} not answer since {clock(since_ms)}. {effect}",
        f"Check that {some(away)} runs (mqnamesrv, port 9876) and that the collector reaches it.",
    )


def describe_name_conflict(cluster: str, collectors: Sequence[str], since_ms: int) -> Text:
    """Collectors of two clusters publish under one name."""
    return Text(
        f"Collectors {some(collectors)} publish two clusters under the name {cluster} since {clock(since_ms)}: brokers "
        "of the same names have other addresses. Alerts of its groups mix both clusters and wait under this one.",
        f"Give one of the collectors another collector.cluster, restart it, then run: balancewatch forget --cluster "
        f"{cluster}",
    )


def describe_no_clock(cluster: str, since_ms: int, *, has_ahead: bool) -> Text:
    """Events without a tick."""
    ahead = "Its clock is ahead of Kafka's and refused (clock_skew): set it right. " if has_ahead else ""
    return Text(
        f"Cluster {cluster} has no clock since {clock(since_ms)}: its events arrive, yet no clock event that moves its "
        "time. None of its groups is judged, and no alert of theirs begins or ends.",
        f"{ahead}See whether `balancewatch collect` for cluster {cluster} runs and reaches Kafka; where only agents "
        "report, `balancewatch run` keeps the time itself unless it cannot publish (its log).",
    )


def describe_dropped(cluster: str, shard: int, dropped: int, since_ms: int) -> Text:
    """More waits for a tick than is kept."""
    return Text(
        f"Shard {shard} has dropped the oldest {dropped} events of cluster {cluster} that waited for a clock event, "
        f"and drops more as they come, since {clock(since_ms)}. Kafka still has them.",
        f"Have the time of cluster {cluster} kept: see whether its collector runs and reaches Kafka. What was dropped "
        "is judged by `balancewatch replay` alone.",
    )


def describe_dropped_sends(cluster: str, dropped: int, since_ms: int) -> Text:
    """More sends wait for a tick than are kept."""
    return Text(
        f"The oldest {dropped} runs of sends of cluster {cluster} that waited for a clock event were dropped, and more "
        f"are as they come; of what is before {clock(since_ms)} no broker's alert is reported. Kafka still has them.",
        f"Have the time of cluster {cluster} kept: see whether its collector runs and reaches Kafka, and where only "
        "producers report, whether `balancewatch run` can publish (its log).",
    )


def describe_slow_collector(cluster: str, interval_ms: int) -> Text:
    """Rounds are far apart."""
    seconds = round(interval_ms / 1000)
    return Text(
        f"The rounds of cluster {cluster} come {seconds} s apart. Whatever begins and ends between two rounds is not "
        "seen: clients that take turns on a queue (double_consumed_queue), short freezes, quick reconnects. All else "
        "is reported up to two rounds later.",
        "Shorten collector.interval_seconds, or if rounds take that long: see which clients or brokers do not answer "
        "(the collector's log), and let a second collector read some of the groups.",
    )


def describe_broker_without_master(cluster: str, broker_name: str, topics: int, since_ms: int) -> Text:
    """A broker's master is gone; its slaves serve reads where slaveReadEnable is set, which it is not by default."""
    return Text(
        f"Broker {broker_name} of cluster {cluster} has no master since {clock(since_ms)}: nothing can be written to "
        f"it, ordered consumers get no locks, and its {count(topics, 'topic')} {'is' if topics == 1 else 'are'} read "
        "only from slaves that have slaveReadEnable = true (off by default), else by nobody.",
        f"Bring the master of {broker_name} back (brokerId 0).",
    )
