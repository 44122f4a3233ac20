"""What the stream has read of each topic since it was looked at last, and how much of that it quarantined.

A batch's quarantined rows are heard before Spark notes that the batch is done: they count with its messages, later.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from streaming.quality.quality_alert import QuarantineShare
from streaming.queries.checkpoint import Offsets, Position, read_beginning, read_position
from streaming.warehouse.rows import Rows

MOST_BATCHES = 1_000
"""Of a query's batches so many are told apart; of older ones, which no look could count, only their sum is kept."""


class ReadProgress:
    """Not for several threads at once. Nothing is forgotten before `settle`."""

    def __init__(self, checkpoints: Mapping[str, Path]) -> None:
        """`checkpoints` by query. What it has read by now is not counted. Raises OSError or ValueError."""
        self._checkpoints = checkpoints
        self._ends: dict[str, Offsets] = {}
        self._quarantined: dict[str, dict[int, Counter[str]]] = defaultdict(dict)
        for name, checkpoint in checkpoints.items():
            position = read_position(checkpoint)
            if position is not None:
                self._ends[name] = dict(position.wanted)

    def note(self, name: str, batch_id: int, rows: Rows) -> None:
        """What a batch of the query has quarantined; the same batch again counts once."""
        batches = self._quarantined[name]
        batches[batch_id] = Counter(row["topic"] for row in rows.get("quarantine", ()))
        if len(batches) > MOST_BATCHES:
            oldest, next_, *_ = sorted(batches)
            batches[next_] += batches.pop(oldest)

    def since_last(self, name: str, topic: str, position: Position) -> QuarantineShare:
        """Of the batches that are done by this position of the query. A partition that was made anew counts whole."""
        ends = self._ends.get(name)
        if ends is None:
            ends = self._ends[name] = read_beginning(self._checkpoints[name])
        read = 0
        for place, end in position.wanted.items():
            if place[0] == topic:
                begin = ends.get(place, 0)
                read += end - begin if end >= begin else end
        done = _done(position)
        return QuarantineShare(
            read, sum(of[topic] for batch_id, of in self._quarantined[name].items() if batch_id <= done)
        )

    def settle(self, name: str, topic: str, position: Position) -> None:
        """The topic was looked at up to this position, and what came of it is written."""
        ends = self._ends.setdefault(name, {})
        ends |= {place: end for place, end in position.wanted.items() if place[0] == topic}
        batches, done = self._quarantined[name], _done(position)
        for batch_id in [one for one in batches if one <= done]:
            del batches[batch_id][topic]
            if not batches[batch_id]:
                del batches[batch_id]


def _done(position: Position) -> int:
    return position.batch_id if position.is_committed else position.batch_id - 1
