"""Whether a batch was cut, by what Spark planned it to read; the driver tells the Python workers by a local property.

The offsets that a batch shows do not say it: a compacted topic has holes, and transactions leave markers.
"""

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import structlog
from pyspark import SparkContext, TaskContext

from streaming.queries.checkpoint_offsets import read_batch

log = structlog.get_logger()

PROPERTY = "balancewatch.planned"


class Planned(NamedTuple):
    """`is_cut`: the batch may have left messages behind, in any of `places`, the partitions that it reads.

    `is_once`: nothing that comes later is read, and nobody keeps a clock: `run --available-now`.
    """

    is_cut: bool
    places: frozenset[tuple[str, int]] = frozenset()
    is_once: bool = False

    def of(self, topics: Collection[str]) -> "Planned":
        """The same, of these topics alone."""
        return self._replace(places=frozenset(place for place in self.places if place[0] in topics))


def plan_of(offsets: dict[tuple[str, int], int], limit: int | None) -> Planned:
    """A batch that reads so many offsets of each partition under maxOffsetsPerTrigger, 0 for none; None: nobody knows
    the limit, and the batch may have been cut.

    Spark rounds each partition's share down, and gives every partition with a backlog one offset at least.
    """
    places = frozenset(place for place, count in offsets.items() if count > 0)
    is_cut = limit is None or 0 < limit <= sum(offsets[place] for place in places) + len(places)
    return Planned(is_cut, places if is_cut else frozenset())


def publish_plan(
    context: SparkContext, checkpoint: Path, batch_id: int, limit: int | None, *, is_once: bool = False
) -> dict[str, int]:
    """Before the batch's action; how many offsets of each topic it reads. `limit` is the one it was planned under.

    Of a checkpoint that cannot be read nothing is reported; the offsets seen decide then.
    """
    counts: Counter[str] = Counter()
    try:
        offsets = read_batch(checkpoint, batch_id)
        for (topic, _), count in offsets.items():
            counts[topic] += count
        planned = plan_of(offsets, limit)
        text = json.dumps([planned.is_cut, sorted(planned.places), is_once])
    except (OSError, ValueError) as error:
        log.warning("batch plan not read", batch_id=batch_id, reason=str(error))
        text = ""
    context.setLocalProperty(PROPERTY, text)
    return dict(counts)


def published_plan() -> Planned | None:
    """In a worker: the plan of the batch under way; None where nobody told it."""
    context = TaskContext.get()
    text = context.getLocalProperty(PROPERTY) if context is not None else None
    if not text:
        return None
    is_cut, places, is_once = json.loads(text)
    return Planned(is_cut, frozenset((topic, partition) for topic, partition in places), is_once)
