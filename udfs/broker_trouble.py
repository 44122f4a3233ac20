"""Alerts that tell of one trouble from two sides: a broker that is gone.

Groups are judged by heartbeats and pulls, brokers by producers' sends, each in the shard that it hashes to, so neither
can name the other's incident; the relay can. Whoever is told first keeps the page, and the other waits under it.
"""

GONE = frozenset({"unheard_broker", "masterless_broker"})


def trouble_of(kind: str, cause: str | None, cluster: str, broker_name: str | None) -> tuple[str, str] | None:
    """(cluster, broker) where the alert says that the broker is gone; None for any other.

    A slow broker is not gone: producers that avoid it tell of something that nobody else does.
    """
    is_gone = kind in GONE or (kind == "broker_isolated" and cause == "failing_broker")
    return (cluster, broker_name) if is_gone and broker_name else None
