"""slave_read, order_at_risk: what a broker without its master, or under memory pressure, does to a group."""

from udfs.alert import Finding
from udfs.findings import prose
from udfs.model import queue_order
from udfs.scene import Findings, Scene
from udfs.watch import TopicWatch

SLAVE_READ, ORDER_AT_RISK = "slave_read", "order_at_risk"

MASTER_DOWN, MASTER_BUSY, BROKER_DOWN, QUEUES_LOST = "master_down", "master_busy", "broker_down", "queues_lost"

SLAVE_READ_MS = 30_000
"""A client that asked a slave asks the master again with its next pull, if the broker suggests so."""

REMEMBERED_MS = 600_000
"""A broker that left its routes is missed for so long; then it counts as removed on purpose."""


def find_slave_reads(scene: Scene) -> Findings:
    """A finding a broker whose slave serves the group's pulls, by `slave_read BROKER`.

    Either there is no master, or the group reads what is older than 40 % of the master's memory
    (accessMessageInMemoryMaxRatio).
    """
    reads: dict[str, dict[str, int]] = {}
    for topic, watched in sorted(scene.state.topics.items()):
        for name, watch in watched.queues.items():
            if watch.pullers and watch.oddity and watch.oddity.slave_since_ms is not None:
                reads.setdefault(queue_order(name)[0], {})[f"{topic} {name}"] = watch.oddity.slave_since_ms
    masterless = {name for route in scene.routes.values() for name in route.without_master}
    findings = {}
    for broker_name, since in sorted(reads.items()):
        since_ms = min(since.values())
        known = scene.incident(f"{SLAVE_READ} {broker_name}")
        was_down = known is not None and known.cause == MASTER_DOWN  # the last pulls from the slave may be of then
        cause = MASTER_DOWN if broker_name in masterless or was_down else MASTER_BUSY
        topics = sorted({name.partition(" ")[0] for name in since})
        findings[f"{SLAVE_READ} {broker_name}"] = Finding(
            kind=SLAVE_READ,
            cause=cause,
            severity="warning" if cause == MASTER_DOWN else "info",
            since_ms=since_ms,
            text=prose.tell_slave_read(scene.labels, broker_name, cause, len(since), since_ms),
            labels={**scene.labels, "broker_name": broker_name},
            topic=topics[0] if len(topics) == 1 else None,
            broker_name=broker_name,
            queues=tuple(sorted({name.partition(" ")[2] for name in since}, key=queue_order)),
            evidence={"topics": topics},
            is_ready=scene.now_ms >= since_ms + SLAVE_READ_MS,
        )
    return findings


def find_orders_at_risk(scene: Scene) -> Findings:
    """A finding an ordered topic one of whose brokers is down, by `order_at_risk TOPIC`.

    Messages of one key go to one queue by hash. With the broker down a globally ordered topic stops; a locally
    ordered one goes on in other queues, and what waits in the old one is overtaken.
    """
    findings = {}
    orderly = [member for _, member in scene.state.membership.members() if member.consume_orderly]
    for topic, watched in scene.shared_topics():
        route = scene.routes.get(topic)
        if route is None or not (route.order_topic or any(member.subscribes(topic) for member in orderly)):
            scene.since(f"{ORDER_AT_RISK} {topic}", holds=False)
            continue
        down = dict.fromkeys(_lost_brokers(scene, watched), QUEUES_LOST)
        down |= dict.fromkeys(
            route.broker_names() & scene.hearing.unheard - scene.not_asked.brokers.keys(), BROKER_DOWN
        )
        down |= dict.fromkeys(route.without_master, MASTER_DOWN)
        since_ms = scene.since(f"{ORDER_AT_RISK} {topic}", bool(down))
        if since_ms is None:
            continue
        names = sorted(down)
        total = sum(watched.read_queue_nums.values())
        findings[f"{ORDER_AT_RISK} {topic}"] = Finding(
            kind=ORDER_AT_RISK,
            cause=down[names[0]],
            severity="warning",
            since_ms=since_ms,
            text=prose.tell_order_at_risk(scene.labels, topic, names, is_global=total <= 1, since_ms=since_ms),
            labels={**scene.labels, "topic": topic},
            topic=topic,
            broker_name=",".join(names),
            evidence={"brokers": down, "order_topic": route.order_topic},
            is_ready=scene.now_ms >= since_ms + SLAVE_READ_MS,
        )
    return findings


def _lost_brokers(scene: Scene, watched: TopicWatch) -> set[str]:
    if scene.now_ms >= watched.route_changed_ms + REMEMBERED_MS:
        return set()
    return watched.nums_before.keys() - watched.read_queue_nums.keys()
