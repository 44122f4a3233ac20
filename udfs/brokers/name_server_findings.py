"""What is wrong with a cluster's NameServers, and two clusters that share one name; each rule names its nearest
innocent case.
"""

from collections.abc import Iterator
from itertools import combinations

from udfs.alerts.alert import Finding
from udfs.brokers import cluster_prose
from udfs.brokers.cluster_state import ClusterState
from udfs.brokers.rounds import Source

NAME_SERVER_UNREACHABLE, CLUSTER_NAME_CONFLICT = "name_server_unreachable", "cluster_name_conflict"
SOME_UNREACHABLE, ALL_UNREACHABLE = "some_unreachable", "all_unreachable"
TWO_CLUSTERS = "two_clusters"

CONFLICT_MS = 30_000
"""A broker registers at each NameServer every 30 s: until then two of them may know two addresses of it."""


def find_name_servers(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[tuple[str, Finding]]:
    """A NameServer is unreachable when no collector that is configured with it got an answer for two rounds.

    An error when none answers; a warning while another one does. Not unreachable: one that missed a single round.
    """
    sources = list(cluster_state.rounds.collectors(now_ms).values())
    listed = {name for source in sources for name in source.name_servers}
    reached = {name for source in sources for name in source.name_servers if name not in source.unreachable_ms}
    away = sorted(listed - reached)
    if not away:
        return
    rounds = [source for source in sources if source.unreachable_ms.keys() & set(away)]
    since_ms = min(source.unreachable_ms[name] for source in rounds for name in away if name in source.unreachable_ms)
    yield (
        NAME_SERVER_UNREACHABLE,
        Finding(
            kind=NAME_SERVER_UNREACHABLE,
            cause=SOME_UNREACHABLE if reached else ALL_UNREACHABLE,
            severity="warning" if reached else "error",
            since_ms=since_ms,
            text=cluster_prose.describe_name_servers(cluster, away, sorted(reached), since_ms),
            labels={"cluster": cluster},
            evidence={"unreachable": away, "name_servers": sorted(listed)},
            is_ready=any(source.now_ms > since_ms for source in rounds),
        ),
    )


def find_name_conflict(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[tuple[str, Finding]]:
    """Two clusters share one name when two live collectors got answers from brokers of the same names at
    other addresses.

    Not two clusters: collectors that share at least one broker; a broker that moved to another address meanwhile.
    """
    collectors = cluster_state.rounds.collectors(now_ms)
    pairs = [(one, other) for one, other in combinations(collectors, 2) if _differ(collectors[one], collectors[other])]
    if not pairs:
        return
    known = cluster_state.incidents.get(CLUSTER_NAME_CONFLICT)
    since_ms = known.started_at_ms if known else now_ms
    names = sorted({name for pair in pairs for name in pair})
    yield (
        CLUSTER_NAME_CONFLICT,
        Finding(
            kind=CLUSTER_NAME_CONFLICT,
            cause=TWO_CLUSTERS,
            severity="error",
            since_ms=since_ms,
            text=cluster_prose.describe_name_conflict(cluster, names, since_ms),
            labels={"cluster": cluster},
            evidence={"collectors": {name: collectors[name].addresses for name in names}},
            is_ready=now_ms >= since_ms + CONFLICT_MS,
        ),
    )


def _differ(one: Source, other: Source) -> bool:
    """Whether both read brokers of the same names, and each at another address."""
    common = one.addresses.keys() & other.addresses.keys()
    return bool(common) and all(one.addresses[name] != other.addresses[name] for name in common)
