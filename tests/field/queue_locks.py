"""Queue locks in a stranger's name: RebalanceLockManager's, taken from those who hold them."""

import time
from collections.abc import Sequence
from typing import Any

from tests.remoting import GET_CONSUMER_LIST_BY_GROUP, LOCK_BATCH_MQ, UNLOCK_BATCH_MQ, Channel

STRANGER = "127.0.0.1@a-stranger"
RENEW_SECONDS = 5.0
TRIES = 20


def take_locks(
    address: str, broker_name: str, group: str, topic: str, queue_ids: Sequence[int], seconds: float
) -> None:
    """Hold the group's locks of these queues for `seconds`, and give them back. Raises TimeoutError if not granted.

    A broker gives a lock away when its holder unlocks it, or has not renewed it for 60 s. It does not ask who says so.
    """
    queues = [{"topic": topic, "brokerName": broker_name, "queueId": number} for number in queue_ids]

    def body(client_id: str) -> dict[str, Any]:
        return {"consumerGroup": group, "clientId": client_id, "mqSet": queues}

    with Channel(address) as channel:
        for _ in range(TRIES):
            said = channel.request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
            for client_id in (said.body or {}).get("consumerIdList", ()):
                channel.request(UNLOCK_BATCH_MQ, body=body(client_id))
            if len(channel.request(LOCK_BATCH_MQ, body=body(STRANGER)).body["lockOKMQSet"]) == len(queues):
                break
        else:
            raise TimeoutError(f"the locks of {topic} on {broker_name} were not granted in {TRIES} tries")
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, RENEW_SECONDS))
            channel.request(LOCK_BATCH_MQ, body=body(STRANGER))
        channel.request(UNLOCK_BATCH_MQ, body=body(STRANGER))
