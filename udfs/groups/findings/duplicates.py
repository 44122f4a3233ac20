"""duplicate_client_id: one ClientId on several live channels, and the queues it starves."""

from udfs.alerts import prose
from udfs.alerts.alert import Finding
from udfs.groups.plan import DUPLICATE_CLIENT_ID
from udfs.groups.queue_state import HAND_OVER_MS, NOT_JUDGED, QueueState
from udfs.groups.snapshot import Findings, GroupSnapshot
from udfs.rocketmq.model import queue_order


def find_duplicates(snapshot: GroupSnapshot) -> Findings:
    """Kind 1. A ClientId is duplicate when several live channels carry it; a finding each, by `duplicate_client_id
    CLIENT_ID`. Not duplicate: broadcasting clients, which carry `ip@DEFAULT` by design and share out nothing; a
    reconnect, whose first channel sends no heartbeat after the second appeared.
    """
    state, findings = snapshot.state, {}
    for client_id in sorted({twin.client_id for twin in snapshot.twins}):
        of_client = [twin for twin in snapshot.twins if twin.client_id == client_id]
        if not any(member.client_id == client_id for _, member in snapshot.judged_members()):
            continue
        views = {twin.broker_name: list(twin.client_addrs) for twin in of_client}
        since_ms = min(twin.since_ms for twin in of_client)
        starved = {
            topic: names
            for topic, topic_state in sorted(state.topics.items())
            if (
                names := [
                    name for name, queue_state in topic_state.queues.items() if _is_lost_to(client_id, queue_state)
                ]
            )
        }
        topics = [topic for topic, _ in snapshot.shared_topics()]
        findings[f"{DUPLICATE_CLIENT_ID} {client_id}"] = Finding(
            kind=DUPLICATE_CLIENT_ID,
            cause=DUPLICATE_CLIENT_ID,
            severity="critical" if starved else "warning",
            since_ms=since_ms,
            text=prose.describe_duplicate_client_id(
                state.cluster, state.consumer_group, client_id, views, starved, since_ms
            ),
            labels={**snapshot.labels, "client_id": client_id},
            topic=topics[0] if len(topics) == 1 else None,
            client_id=client_id,
            broker_name=",".join(sorted(views)),
            queues=tuple(sorted({name for names in starved.values() for name in names}, key=queue_order)),
            evidence={
                "client_addrs": sorted({addr for addrs in views.values() for addr in addrs}),
                "views": views,
                "starved": starved,
            },
        )
    return findings


def is_pulled_anyway(queue_state: QueueState) -> bool:
    """Pulled for longer after the plan changed than a hand-over takes."""
    return any(
        puller.last_pull_ms > queue_state.share_since_ms + HAND_OVER_MS for puller in queue_state.pullers.values()
    )


def _is_lost_to(client_id: str, queue_state: QueueState) -> bool:
    """The queue is in a later slot of this twin, and nobody has been seen to pull it nevertheless."""
    is_slot = queue_state.share.gap == DUPLICATE_CLIENT_ID and queue_state.share.slot_of == client_id
    return is_slot and queue_state.verdict != NOT_JUDGED and not is_pulled_anyway(queue_state)
