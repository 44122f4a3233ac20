"""One batch of one shard, whole: what tells of its groups, then the sends of its brokers and clusters."""

from collections.abc import Iterable

from streaming.queries.parcel import Parcel
from streaming.queries.planned import Planned
from streaming.queries.rows import Rows
from streaming.queries.sends import Sends
from streaming.queries.shard import Shard
from streaming.queries.shard_rows import quarantine_row
from streaming.queries.shard_state import ShardState
from udfs.rulebook import Rulebook


def work_through(
    number: int,
    shards: int,
    state: ShardState,
    rules: Rulebook,
    parcels: Iterable[Parcel],
    limit: int = 0,
    planned: Planned | None = None,
    engine: type[Shard] = Shard,
) -> Rows:
    """The rows that a batch gives, by table; the state is written. `limit` is maxOffsetsPerTrigger, 0 for none."""
    parcels = list(parcels)
    if planned is None and limit:
        planned = _plan_seen(parcels, limit)
    sends = Sends(state, rules, limit, planned)
    sends.process(one for parcel in parcels for one in parcel.sends)
    shard = engine(number, shards, state, rules)
    shard.process([chunk for parcel in parcels for chunk in parcel.chunks], limit, planned)
    rows = shard.rows
    for table, of_table in sends.rows.items():
        rows.setdefault(table, []).extend(of_table)
    rejected = [quarantine_row(*reject) for parcel in parcels for reject in parcel.rejects]
    rows.setdefault("quarantine", []).extend(rejected)
    return rows


def _plan_seen(parcels: Iterable[Parcel], limit: int) -> Planned:
    """Where nobody told it: a batch in which as many offsets were seen as it may read was cut."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    sends = 0
    for parcel in parcels:
        sends += parcel.sends_read
        for chunk in parcel.chunks:
            place = (chunk.topic, chunk.partition)
            first, last = spans.get(place, (chunk.first_offset, chunk.last_offset))
            spans[place] = min(first, chunk.first_offset), max(last, chunk.last_offset)
    read = sends + sum(last - first + 1 for first, last in spans.values())
    return Planned(read >= limit - len(spans))
