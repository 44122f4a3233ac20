"""slave_read, order_at_risk: what a broker without its master, or under memory pressure, does to a group."""

from collections.abc import Iterator

from udfs.alerts.alert import Finding, wording
from udfs.alerts.phrase import phrase, plural
from udfs.alerts.prose import clock, number_of
from udfs.groups.snapshot import GroupSnapshot
from udfs.rocketmq.model import queue_order

SLAVE_READ, ORDER_AT_RISK = "slave_read", "order_at_risk"

MASTER_DOWN, MASTER_BUSY, BROKER_DOWN, QUEUES_LOST = "master_down", "master_busy", "broker_down", "queues_lost"

SLAVE_READS = {
    MASTER_DOWN: wording(
        "its master is down",
        "Bring the master of {broker_name} back: until then producers cannot write, and ordered consumers get no "
        "locks.",
    ),
    MASTER_BUSY: wording(
        "the group reads messages that are no longer in the master's memory (over 40 % behind)",
        "Help the group catch up: add consumers or queues, or find what slows its listeners down.",
    ),
}
"""Cause → its reason and advice."""

SLAVE_READ_MS = 30_000
"""A client that asked a slave asks the master again with its next pull, if the broker suggests so."""

REMEMBERED_MS = 600_000
"""A broker that left its routes is missed for so long; then it counts as removed on purpose."""


def find_slave_reads(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 8. A group reads from a slave when the slave has served the group's pulls for SLAVE_READ_MS; a finding a
    broker. Either there is no master, or the group reads what is older than 40 % of the
    master's memory (accessMessageInMemoryMaxRatio). Not: a single pull while the master restarts.
    """
    reads: dict[str, dict[str, int]] = {}
    for topic, topic_state in sorted(snapshot.state.topics.items()):
        for name, queue_state in topic_state.queues.items():
            if queue_state.pullers and queue_state.anomaly and queue_state.anomaly.slave_since_ms is not None:
                reads.setdefault(queue_order(name)[0], {})[f"{topic} {name}"] = queue_state.anomaly.slave_since_ms
    masterless = {name for route in snapshot.routes.values() for name in route.without_master}
    for broker_name, since in sorted(reads.items()):
        since_ms = min(since.values())
        known = snapshot.incident(f"{SLAVE_READ} {broker_name}")
        was_down = known is not None and known.cause == MASTER_DOWN  # the last pulls from the slave may be of then
        cause = MASTER_DOWN if broker_name in masterless or was_down else MASTER_BUSY
        topics = sorted({name.partition(" ")[0] for name in since})
        yield Finding(
            kind=SLAVE_READ,
            cause=cause,
            severity="warning" if cause == MASTER_DOWN else "info",
            since_ms=since_ms,
            text=wording(
                "A slave of {broker_name} has served {queues} of {group} since {time}: {reason}.",
                SLAVE_READS[cause].advice,
            ).given(
                broker_name=broker_name,
                queues=number_of(len(since), "queue"),
                group=snapshot.where,
                time=clock(since_ms),
                reason=SLAVE_READS[cause].summary,
            ),
            labels={**snapshot.labels, "broker_name": broker_name},
            topic=topics[0] if len(topics) == 1 else None,
            broker_name=broker_name,
            queues=tuple(sorted({name.partition(" ")[2] for name in since}, key=queue_order)),
            evidence={"topics": topics},
            is_ready=snapshot.now_ms >= since_ms + SLAVE_READ_MS,
        )


def find_orders_at_risk(snapshot: GroupSnapshot) -> Iterator[Finding]:
    """Kind 10. Order is at risk when a topic is ordered and one of its brokers, or a broker's master, is down, or its
    queues are gone from the route, for SLAVE_READ_MS; a finding a topic, by `order_at_risk TOPIC`. Messages of one key
    go to one queue by hash: with the broker down a globally ordered topic stops; a locally ordered one goes on in other
    queues, and what waits in the old queue is overtaken. Not at risk: a topic that no member consumes in order.
    """
    orderly = [member for member in snapshot.members if member.consume_orderly]
    for topic, topic_state in snapshot.shared_topics():
        route = snapshot.routes.get(topic)
        if route is None or not (route.order_topic or any(member.subscribes(topic) for member in orderly)):
            snapshot.since(f"{ORDER_AT_RISK} {topic}", holds=False)
            continue
        is_remembered = snapshot.now_ms < topic_state.route_changed_ms + REMEMBERED_MS
        lost = topic_state.nums_before.keys() - topic_state.read_queue_nums.keys() if is_remembered else set()
        down = dict.fromkeys(lost, QUEUES_LOST)
        coverage = snapshot.broker_coverage
        unanswering = coverage.without_data - coverage.missed - snapshot.not_asked.brokers.keys()
        down |= dict.fromkeys(route.broker_names() & unanswering, BROKER_DOWN)
        down |= dict.fromkeys(route.without_master, MASTER_DOWN)
        since_ms = snapshot.since(f"{ORDER_AT_RISK} {topic}", bool(down))
        if since_ms is None:
            continue
        names = sorted(down)
        effect = phrase("messages of one key now go to another queue and overtake those that wait in the old one")
        if sum(topic_state.read_queue_nums.values()) <= 1:
            effect = phrase("the topic has only one queue and stops until the broker is back")
        yield Finding(
            kind=ORDER_AT_RISK,
            cause=down[names[0]],
            severity="warning",
            since_ms=since_ms,
            text=wording(
                plural(
                    len(names),
                    "Message order of topic {topic} in {group} has been at risk since {time}: {brokers} is "
                    "unavailable; {effect}.",
                    "Message order of topic {topic} in {group} has been at risk since {time}: {brokers} are "
                    "unavailable; {effect}.",
                ),
                "Bring {brokers} back before producers continue, or stop the producers if order matters more than "
                "availability.",
            ).given(topic=topic, group=snapshot.where, time=clock(since_ms), brokers=names, effect=effect),
            labels={**snapshot.labels, "topic": topic},
            topic=topic,
            broker_name=",".join(names),
            evidence={"brokers": down, "order_topic": route.order_topic},
            is_ready=snapshot.now_ms >= since_ms + SLAVE_READ_MS,
        )
