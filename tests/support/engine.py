"""A log worked through by the query's own code, without Spark or Kafka: messages in, rows out.

Offsets and partitions are as the embedded Kafka would give them: one partition a topic.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from streaming.queries.parcel import Chunk
from streaming.queries.running import plan_of
from streaming.queries.shard import Shard, work_through
from streaming.queries.state import ShardState, StateCache
from streaming.queries.store import DictShardStore
from streaming.queries.waiting import OF_GROUPS, Planned
from streaming.replay import stream
from streaming.replay.stream import Enveloper, Event, parcels_for
from tests.support.rules import default_rules
from udfs.alerts.rulebook import Rulebook
from udfs.alerts.rules import Rules

SHARDS = 2


def messages_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Events that tell of groups as Kafka rows, in the order given."""
    return Enveloper().messages((topic, event) for topic, event in events if topic in OF_GROUPS)


def cut(messages: Sequence[dict[str, Any]], batches: int) -> Iterator[list[dict[str, Any]]]:
    """The log in batches of the same size, cut anywhere."""
    size = -(-len(messages) // batches)
    for start in range(0, len(messages), size):
        yield list(messages[start : start + size])


def replay(
    batches: Iterable[Sequence[dict[str, Any]]],
    *,
    limit: int = 0,
    rules: Rules | None = None,
    plans: Iterable[Planned] = (),
    is_kept: bool = True,
    engine: type[Shard] = Shard,
) -> dict[str, list[dict[str, Any]]]:
    """All rows the shards put out, by table, in the order of the batches; `plans` are what Spark told of each.

    Unless `is_kept`, every batch is another worker's, which knows nothing but the store. `engine` is the shard under
    test, or the one that looks at everything (every_evaluation.py).
    """
    rulebook = Rulebook(rules or default_rules())
    stores, states = [DictShardStore() for _ in range(SHARDS)], StateCache()
    rows: dict[str, list[dict[str, Any]]] = {}
    reported = iter(plans)
    for batch in batches:
        places = Counter((message["topic"], message["partition"]) for message in batch)
        planned = next(reported, None) or plan_of(places, limit)
        for number, store in enumerate(stores):
            with (states if is_kept else StateCache()).state_of(number, store) as state:
                parcels = parcels_for(batch, number, SHARDS)
                given = work_through(number, SHARDS, state, rulebook, parcels, limit, planned, engine)
            for table, of_table in given.items():
                rows.setdefault(table, []).extend(of_table)
    return rows


def chunks_for(batch: Sequence[dict[str, Any]], number: int = 0, shards: int = 1) -> list[Chunk]:
    """What a shard of several is handed of a batch, of what tells of groups."""
    return [chunk for parcel in parcels_for(batch, number, shards) for chunk in parcel.chunks]


class CountingStore(DictShardStore):
    """A state in memory that counts the calls by name."""

    def __init__(self) -> None:
        super().__init__()
        self.trips = Counter[str]()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith(("read", "write", "add", "clear")):
            return found

        def trip(*arguments: Any) -> Any:
            self.note(name)
            return found(*arguments)

        return trip

    def note(self, name: str) -> None:
        self.trips[name] += 1


class Stream(stream.Stream):
    """The query at work on a run that is too long to keep: feed it slices, take the rows."""

    def __init__(self, rules: Rules | None = None, language: str = "en") -> None:
        super().__init__(Rulebook(rules or default_rules()), language)
        self._enveloper = Enveloper()

    @property
    def kept(self) -> ShardState:
        """What the store has, as another worker would read it."""
        return ShardState(self._store)

    def feed(
        self, events: Iterable[Event], ingest_time_ms: Callable[[Event], int] | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """Work through the next events; the rows they give, by table. `ingest_time_ms` says when Kafka had each."""
        fed = list(events)
        messages = self._enveloper.messages(fed)
        if ingest_time_ms is not None:
            for message, event in zip(messages, fed, strict=True):
                message["ingest_time_ms"] = ingest_time_ms(event)
        return self.work_through(messages)

    def feed_each(self, batches: Iterable[Iterable[Event]]) -> dict[str, list[dict[str, Any]]]:
        """Feed one batch after the other; the rows of all, by table."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for batch in batches:
            for table, of_table in self.feed(batch).items():
                rows.setdefault(table, []).extend(of_table)
        return rows
