"""What is unusual about a pull: the broker refuses it, a slave serves it, or the committed offset went back."""

from udfs.alerts.rules import LONG_POLL_MS
from udfs.groups.consumption import PULL_BATCH, Pull
from udfs.groups.queue_state import HAND_OVER_MS, TURN_MS, PullAnomaly, QueueState

NO_PERMISSION = "NO_PERMISSION"
"""ResponseCode.NO_PERMISSION: consumeEnable is false for the group, or the topic may not be read."""


def note_anomaly(queue_state: QueueState, pull: Pull, key: str) -> None:
    """Bring a queue's anomaly up to a pull that is newer than all before. `queue_state` is as it was before that pull,
    `key` is its puller's.
    """
    note_regression(queue_state, pull, key)
    pullers = queue_state.pullers
    is_turn = key != max(pullers, key=lambda known: pullers[known].last_pull_ms, default=key)  # another pulled last
    if not (queue_state.anomaly or pull.broker_id or is_turn):
        return
    odd = queue_state.anomaly = queue_state.anomaly or PullAnomaly()
    if is_turn and odd.turned_ms + TURN_MS <= pull.event_time_ms:
        odd.turns, odd.turned_ms = odd.turns + 1, pull.event_time_ms
    elif not is_turn and odd.turned_ms + HAND_OVER_MS < pull.event_time_ms:
        odd.turns = 0
    if not pull.broker_id:
        odd.slave_since_ms = None
    elif odd.slave_since_ms is None:
        odd.slave_since_ms = pull.event_time_ms
    odd.is_slave_suggested = bool(pull.suggest_broker_id)


def note_regression(queue_state: QueueState, pull: Pull, key: str) -> None:
    """Note that the committed offset fell, or is back. Offsets that are newer than all before; `key` as above.

    A queue that ends before an offset that was committed is another one: its topic was made anew, or its broker's store
    was wiped. Its offsets begin anew. A slave may know less of the same queue.
    """
    odd = queue_state.anomaly
    fell_from = odd.high_offset if odd is not None and odd.regressed_ms is not None else 0
    high_offset = max(queue_state.commit_offset or 0, fell_from)
    is_another = not pull.broker_id and pull.max_offset is not None and pull.max_offset < high_offset
    if not is_another and _is_regressed(queue_state, pull, key):
        odd = queue_state.anomaly = odd or PullAnomaly()
        odd.high_offset, odd.low_offset = high_offset, pull.commit_offset or 0
        odd.regressed_ms = pull.event_time_ms
    elif odd is not None and (is_another or (pull.commit_offset or 0) >= fell_from):
        odd.regressed_ms = None


def _is_regressed(queue_state: QueueState, pull: Pull, key: str) -> bool:
    """Whether the group's offset fell. Two clients that hand the queue over, or both pull it, commit by turns.

    A client that comes back on a new channel, after longer than a long poll, is one client; no more than a batch falls
    by what its last life committed late.
    """
    if (
        pull.commit_offset is None
        or queue_state.commit_offset is None
        or pull.commit_offset >= queue_state.commit_offset
    ):
        return False
    if pull.commit_offset + PULL_BATCH >= queue_state.commit_offset and queue_state.pullers.keys() - {key}:
        return False
    return not any(
        puller.last_pull_ms + (LONG_POLL_MS if puller.client_id == pull.client_id else HAND_OVER_MS)
        > pull.event_time_ms
        for other, puller in queue_state.pullers.items()
        if other != key
    )
