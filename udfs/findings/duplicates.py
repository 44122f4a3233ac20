"""duplicate_client_id: one ClientId on several live channels, and the queues it starves."""

from udfs import prose
from udfs.alert import Finding
from udfs.model import queue_order
from udfs.ownership import HAND_OVER_MS, NOT_JUDGED, QueueWatch
from udfs.plan import DUPLICATE_CLIENT_ID
from udfs.scene import Findings, Scene


def find_duplicates(scene: Scene) -> Findings:
    """A finding a ClientId that several live channels carry, by `duplicate_client_id CLIENT_ID`.

    Broadcasting clients carry `ip@DEFAULT` by design and share out nothing: not a finding.
    """
    state, findings = scene.state, {}
    for client_id in sorted({twin.client_id for twin in scene.twins}):
        of_client = [twin for twin in scene.twins if twin.client_id == client_id]
        if not any(member.client_id == client_id for _, member in scene.judged_members()):
            continue
        views = {twin.broker_name: list(twin.client_addrs) for twin in of_client}
        since_ms = min(twin.since_ms for twin in of_client)
        starved = {
            topic: names
            for topic, watched in sorted(state.topics.items())
            if (names := [name for name, watch in watched.queues.items() if _is_lost_to(client_id, watch)])
        }
        topics = [topic for topic, _ in scene.shared_topics()]
        findings[f"{DUPLICATE_CLIENT_ID} {client_id}"] = Finding(
            kind=DUPLICATE_CLIENT_ID,
            cause=DUPLICATE_CLIENT_ID,
            severity="critical" if starved else "warning",
            since_ms=since_ms,
            text=prose.tell_duplicate_client_id(
                state.cluster, state.consumer_group, client_id, views, starved, since_ms
            ),
            labels={**scene.labels, "client_id": client_id},
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


def is_pulled_anyway(watch: QueueWatch) -> bool:
    """Pulled for longer after the plan changed than a hand-over takes."""
    return any(puller.last_pull_ms > watch.share_since_ms + HAND_OVER_MS for puller in watch.pullers.values())


def _is_lost_to(client_id: str, watch: QueueWatch) -> bool:
    """The queue is in a later slot of this twin, and nobody has been seen to pull it nevertheless."""
    is_slot = watch.share.gap == DUPLICATE_CLIENT_ID and watch.share.slot_of == client_id
    return is_slot and watch.verdict != NOT_JUDGED and not is_pulled_anyway(watch)
