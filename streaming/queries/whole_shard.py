"""One batch of one shard, whole: what tells of its groups, and the sends of its brokers and clusters."""

from collections.abc import Iterable

from streaming.queries.chunk import reached
from streaming.queries.complete import Complete
from streaming.queries.parcel import Parcel
from streaming.queries.planned import Planned
from streaming.queries.sends import Sends
from streaming.queries.shard import Shard
from streaming.queries.shard_rows import quarantine_row
from streaming.queries.shard_state import ShardState
from streaming.warehouse.rows import Rows
from udfs.alerts.rulebook import Rulebook


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
    chunks = [chunk for parcel in parcels for chunk in parcel.chunks]
    if planned is None and limit:
        planned = Planned(reached(limit, chunks, sum(parcel.sends_read for parcel in parcels)))
    is_once = planned is not None and planned.is_once
    sends = Sends(state, rules, (one for parcel in parcels for one in parcel.sends))
    complete = Complete(chunks, sends.read(), limit, planned)
    of_boards = sends.advance_boards(may_be_cut=limit > 0 or (planned is not None and planned.is_cut))
    shard = engine(number, shards, state, rules, sends.fleets(complete, is_once=is_once))
    shard.process(chunks, complete, is_once=is_once)
    rows = shard.rows
    for table, of_table in of_boards.items():
        rows.setdefault(table, []).extend(of_table)
    rejected = [quarantine_row(*reject) for parcel in parcels for reject in parcel.rejects]
    rows.setdefault("quarantine", []).extend(rejected)
    return rows
