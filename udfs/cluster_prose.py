"""Summaries and advice of a cluster's own alerts, as a colleague would say them."""

from collections.abc import Sequence

from udfs.prose import clock, count, some

Text = tuple[str, str]

WHY = {
    "not_answering": "they do not answer the collector",
    "collector_silent": "its collector has sent nothing",
    "nothing_arrives": "no client's heartbeat has arrived",
}


def tell_unheard_cluster(cluster: str, cause: str, unheard: Sequence[str], asked: int, since_ms: int) -> Text:
    """Too few of a cluster's brokers are heard to judge it."""
    heard = asked - len(unheard)
    advice = {
        "not_answering": f"See whether the collector reaches {some(unheard)} (network, ACL), then whether they run.",
        "collector_silent": f"See whether `balancewatch collect` for cluster {cluster} runs and reaches Kafka.",
        "nothing_arrives": f"See whether the agents of cluster {cluster} run and reach Kafka.",
    }[cause]
    return (
        f"Only {heard} of {count(asked, 'broker')} of cluster {cluster} {'is' if heard == 1 else 'are'} heard since "
        f"{clock(since_ms)}: {WHY[cause]}. What its groups do is unknown; no alert of it ends meanwhile.",
        advice,
    )


def tell_unheard_broker(cluster: str, broker_name: str, cause: str, topics: int, since_ms: int) -> Text:
    """One broker is not heard."""
    why = (
        "none of its clients reaches it, though they reach other brokers"
        if cause == "clients_silent"
        else "it does not answer the collector"
    )
    return (
        f"Broker {broker_name} of cluster {cluster} is not heard since {clock(since_ms)}: {why}. "
        f"It serves {count(topics, 'topic')}; what is wrong in its queues is listed under this alert.",
        f"See whether {broker_name} runs and can be reached (process, disk, network); restart it if not.",
    )


def tell_masterless(cluster: str, broker_name: str, topics: int, since_ms: int) -> Text:
    """A broker's master is gone, its slaves serve."""
    return (
        f"Broker {broker_name} of cluster {cluster} has no master since {clock(since_ms)}: nothing can be written to "
        f"it, ordered consumers get no locks, and its {count(topics, 'topic')} {'is' if topics == 1 else 'are'} read "
        "from a slave.",
        f"Bring the master of {broker_name} back (brokerId 0).",
    )
