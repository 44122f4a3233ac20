"""Actions on quarantined messages, and the claim that makes each message published at most once.

Claims are optimistic: read the table, decide, commit the next version, or read again. Of two concurrent replays only
one claims a message, and it publishes after the claim is committed. A replay that ends between its claim and Kafka's
confirmation leaves the message UNKNOWN; it is never published again.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from conf.location import Location
from schemas.tables import REPAIRS
from streaming.quality.filters import REPAIRED, REPLAYED, UNKNOWN, WAITING
from streaming.system.known_error import BalancewatchError
from streaming.text.times import to_ms
from streaming.warehouse.appender import Appender
from streaming.warehouse.readable_rows import Row, open_written, read_rows, whole
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import open_table, table_path
from streaming.warehouse.warehouse_error import NotWrittenError

MOST_ATTEMPTS = 50

CLAIMED = "CLAIMED"
"""The action that makes a message UNKNOWN until REPLAYED follows; other actions have the name of their state."""


class Place(NamedTuple):
    """A quarantined message: place and time, because offsets restart in a recreated topic."""

    topic: str
    partition: int
    offset: int
    ingest_time_ms: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True)
class Standing:
    """State of a message: WAITING, REPAIRED, UNKNOWN or REPLAYED; and its claim, if any."""

    state: str = WAITING
    claim_id: str | None = None


class BusyError(BalancewatchError):
    """Other writers kept changing the table; nothing was written."""


class Repairs:
    """One warehouse's `repairs`; the table is made with the first action."""

    def __init__(self, warehouse: Location) -> None:
        self._warehouse = warehouse

    def standings(self) -> dict[Place, Standing]:
        """Of the messages that have any action."""
        try:
            return _standings(open_written(self._warehouse, REPAIRS))
        except NotWrittenError:
            return {}

    def repair(self, values: Mapping[Place, bytes], owner: str, now_ms: int) -> list[Place]:
        """Keep what is to be published for each; those that were kept. A message that was claimed is left as it is."""

        def decide(known: Mapping[Place, Standing]) -> list[Place]:
            return [place for place in values if known.get(place, Standing()).state in (WAITING, REPAIRED)]

        return self._commit(decide, REPAIRED, values, owner, now_ms, None)

    def claim(self, values: Mapping[Place, bytes], owner: str, now_ms: int) -> tuple[str, list[Place]]:
        """The claim's id, and those that are now ours alone to publish: nobody has claimed them before."""
        claim_id = secrets.token_hex(8)

        def decide(known: Mapping[Place, Standing]) -> list[Place]:
            return [place for place in values if known.get(place, Standing()).state in (WAITING, REPAIRED)]

        claimed = self._commit(decide, CLAIMED, values, owner, now_ms, claim_id)
        return claim_id, claimed

    def done(self, claim_id: str, landed: Mapping[Place, tuple[int, int]], owner: str, now_ms: int) -> None:
        """Kafka has them; `landed` is (partition, offset) there."""
        rows = [
            _row(place, REPLAYED, owner, now_ms)
            | {"claim_id": claim_id, "replayed_partition": partition, "replayed_offset": offset}
            for place, (partition, offset) in landed.items()
        ]
        if rows:
            path = table_path(self._warehouse, REPAIRS.name)
            Appender(path, open_table(self._warehouse, REPAIRS)).append(arrow_table(rows, REPAIRS, now_ms))

    def _commit(
        self,
        decide: Callable[[Mapping[Place, Standing]], Sequence[Place]],
        action: str,
        values: Mapping[Place, bytes],
        owner: str,
        now_ms: int,
        claim_id: str | None,
    ) -> list[Place]:
        """What was decided on a version, in the version right after it. Raises BusyError after MOST_ATTEMPTS."""
        for _ in range(MOST_ATTEMPTS):
            table = open_table(self._warehouse, REPAIRS)
            known = _standings(table)
            ours = [place for place, one in known.items() if claim_id and one.claim_id == claim_id]
            if ours:
                return ours  # the commit before went through, though it was told as failed
            places = list(decide(known))
            if not places:
                return []
            rows = [
                _row(place, action, owner, now_ms) | {"value": values[place], "claim_id": claim_id} for place in places
            ]
            try:
                write_deltalake(
                    table,
                    arrow_table(rows, REPAIRS, now_ms),
                    mode="append",
                    commit_properties=CommitProperties(max_commit_retries=0),  # the next version, or none
                )
                return places
            except CommitFailedError:
                continue
        raise BusyError(f"other processes wrote table {REPAIRS.name} in each of {MOST_ATTEMPTS} attempts; try again")


def _standings(table: DeltaTable) -> dict[Place, Standing]:
    """Of the version that is open. A file that is damaged ends it: a claim that it has may not be passed over."""
    columns = ["topic", "partition", "offset", "ingest_time", "action", "claim_id"]
    found: dict[Place, Standing] = {}
    for place, action in read_rows(REPAIRS.name, table.to_pyarrow_table(columns=columns), _action_of):
        known = found.get(place, Standing())
        found[place] = Standing(max(known.state, action.state, key=_ORDER.index), action.claim_id or known.claim_id)
    return found


def _action_of(row: Row) -> tuple[Place, Standing]:
    """What one row says of its message. Raises KeyError for an action that is none."""
    known = whole(REPAIRS)(row)
    return place_of(known), Standing(_STATES[known["action"]], known["claim_id"])


_ORDER = (WAITING, REPAIRED, UNKNOWN, REPLAYED)
_STATES = {REPAIRED: REPAIRED, CLAIMED: UNKNOWN, REPLAYED: REPLAYED}


def place_of(row: Mapping[str, Any]) -> Place:
    """Of a row of `quarantine` or `repairs`."""
    time: datetime = row["ingest_time"]
    return Place(row["topic"], row["partition"], row["offset"], to_ms(time))


def _row(place: Place, action: str, owner: str, now_ms: int) -> dict[str, Any]:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "ingest_time": place.ingest_time_ms,
        "action": action,
        "owner": owner,
        "changed_at": now_ms,
    }


def chunks(places: Iterable[Place], size: int) -> Iterable[list[Place]]:
    """So many at a time: a replay that dies leaves no more UNKNOWN than that."""
    chunk: list[Place] = []
    for place in places:
        chunk.append(place)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
