"""Where a shard keeps its state: Spark's state store in the stream, a dictionary in the tests.

Values are JSON, so that the state data source shows them to a person; pending messages are packed as they came.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from streaming.queries.chunk import Chunk, decode_chunks, encode_chunks
from udfs.alert import Incident
from udfs.cluster import ClusterWatch
from udfs.families import Families
from udfs.hearing import Unasked
from udfs.route import Route
from udfs.watch import GroupState


class GroupEntry(msgspec.Struct, array_like=True):
    """When to look at a group again (None: only when something arrives), and which topics' routes concern it.

    `is_calm`: what only repeats what is known needs no look, and at `due_ms` only its deadlines need to be asked
    (udfs.calm).
    """

    due_ms: int | None
    topics: list[str]
    is_calm: bool = False

    def wake(self) -> None:
        """If it is calm: the next tick looks at it in full."""
        if self.is_calm:
            self.is_calm, self.due_ms = False, 0


class Above(msgspec.Struct):
    """Which brokers are heard and how (Hearing), and which incidents stand above groups."""

    unheard: list[str]
    explained: dict[str, str]
    masterless: dict[str, str]
    cluster_id: str | None
    missed: list[str] = []
    silent: list[str] = []
    answered: list[str] = []


class Timing(msgspec.Struct):
    """Whether a tick takes what arrives, by Kafka's time; 0 is never.

    arrived_ms   the newest of the cluster's events, or of a clock of its own
    ticked_ms    the newest tick that moved time; before the first of all, the first event
    began_ms     the oldest event's time, until the first tick
    newest_ms    the newest event's time
    noted_ms     since when a tick has been missed for long; None while it has not
    dropped      events that were dropped since the last tick
    drop         the incident that tells it
    said_again_ms  when a known route was last said again
    routes_ms      when the routes were last looked through
    """

    arrived_ms: int = 0
    ticked_ms: int = 0
    began_ms: int = 0
    newest_ms: int = 0
    noted_ms: int | None = None
    dropped: int = 0
    drop: Incident | None = None
    said_again_ms: int = 0
    routes_ms: int = 0


class ClusterEntry(msgspec.Struct):
    """A cluster's time: its newest tick, the newest of a foreign clock, and whether `run` keeps it now.

    `heard_since_ms` is 0 for a broker that was never missed. `pulled_ms` is since when a broker tells its pulls.
    `unasked` and `above` are what the groups were last told of what nobody heard, and of the incidents above them.
    """

    now_ms: int = 0
    foreign_ms: int = 0
    is_run_clock: bool = False
    unheard: list[str] = []
    heard_since_ms: dict[str, int] = {}
    pulled_ms: dict[str, int] = {}
    groups: dict[str, GroupEntry] = {}
    watch: ClusterWatch = msgspec.field(default_factory=ClusterWatch)
    unasked: list[Unasked] = []
    above: Above = msgspec.field(default_factory=lambda: Above([], {}, {}, None))
    families: Families = msgspec.field(default_factory=Families)
    timing: Timing = msgspec.field(default_factory=Timing)


class Agenda(msgspec.Struct):
    """What a shard must know before it looks at any group. `version` is that of all its state values.

    `rules` is the fingerprint of those it last worked by. `swept_ms` is when, by Kafka's time, the shard last looked at
    all that waits. `forgotten_ms` is when Kafka had the decision that a cluster
    is gone: what it had before is of no cluster any more.
    """

    version: int = 3
    rules: str = ""
    has_held_ticks: bool = False
    swept_ms: int = 0
    clusters: dict[str, ClusterEntry] = {}
    forgotten_ms: dict[str, int] = {}


class ShardStore(Protocol):
    """The state of one shard. Keys come from shard._key."""

    def read_agenda(self) -> Agenda: ...
    def write_agenda(self, agenda: Agenda) -> None: ...
    def read_group(self, key: str) -> GroupState | None: ...
    def write_group(self, key: str, group: GroupState | None) -> None: ...
    def read_route(self, key: str) -> Route | None: ...
    def write_route(self, key: str, route: Route | None) -> None: ...
    def route_keys(self) -> list[str]: ...
    def read_channel(self, key: str) -> list[str]: ...
    def write_channel(self, key: str, groups: list[str]) -> None: ...
    def add_pending(self, chunks: list[Chunk]) -> None: ...
    def take_pending(self) -> list[Chunk]: ...


class StateError(RuntimeError):
    """State written by another release cannot be read. The message says what to do."""


_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_agenda = msgspec.json.Decoder(Agenda)
_group = msgspec.json.Decoder(GroupState)
_route = msgspec.json.Decoder(Route)
_groups = msgspec.json.Decoder(list[str])


class SparkShardStore:
    """State variables of the assignments operator. Each call costs about 70 µs, whatever the value's size."""

    _KEY = T.StructType([T.StructField("name", T.StringType())])
    _VALUE = T.StructType([T.StructField("json", T.StringType())])
    _PACKED = T.StructType([T.StructField("chunks", T.BinaryType())])

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._agenda = handle.getValueState("agenda", self._VALUE)
        self._groups = handle.getMapState("groups", self._KEY, self._VALUE)
        self._routes = handle.getMapState("routes", self._KEY, self._VALUE)
        self._channels = handle.getMapState("channels", self._KEY, self._VALUE)
        self._pending = handle.getListState("pending", self._PACKED)

    def read_agenda(self) -> Agenda:
        value = self._agenda.get()
        if value is None:
            return Agenda()
        agenda = _agenda.decode(value[0])
        if agenda.version != Agenda().version:
            raise StateError(
                f"the checkpoint holds state of version {agenda.version}, this release reads {Agenda().version}; "
                "move the checkpoint away (checkpoints/README.md)"
            )
        return agenda

    def write_agenda(self, agenda: Agenda) -> None:
        self._agenda.update((_encode(agenda).decode(),))

    def read_group(self, key: str) -> GroupState | None:
        value = self._groups.getValue((key,))
        return _group.decode(value[0]) if value else None

    def write_group(self, key: str, group: GroupState | None) -> None:
        if group is None:
            self._groups.removeKey((key,))
        else:
            self._groups.updateValue((key,), (_encode(group).decode(),))

    def read_route(self, key: str) -> Route | None:
        value = self._routes.getValue((key,))
        return _route.decode(value[0]) if value else None

    def write_route(self, key: str, route: Route | None) -> None:
        if route is None:
            self._routes.removeKey((key,))
        else:
            self._routes.updateValue((key,), (_encode(route).decode(),))

    def route_keys(self) -> list[str]:
        return [key[0] for key in self._routes.keys()]  # noqa: SIM118  # a map state, which is no dict

    def read_channel(self, key: str) -> list[str]:
        value = self._channels.getValue((key,))
        return _groups.decode(value[0]) if value else []

    def write_channel(self, key: str, groups: list[str]) -> None:
        if groups:
            self._channels.updateValue((key,), (_encode(groups).decode(),))
        else:
            self._channels.removeKey((key,))

    def add_pending(self, chunks: list[Chunk]) -> None:
        if chunks:
            self._pending.appendList([(encode_chunks(chunks),)])

    def take_pending(self) -> list[Chunk]:
        chunks = [chunk for value in self._pending.get() for chunk in decode_chunks(value[0])]
        self._pending.clear()
        return chunks


class DictShardStore:
    """The same in memory, through the same encodings."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], bytes] = {}
        self.pending: list[bytes] = []

    def _read(self, kind: str, key: str, decoder: msgspec.json.Decoder[Any]) -> Any:
        value = self.values.get((kind, key))
        return None if value is None else decoder.decode(value)

    def _write(self, kind: str, key: str, value: Any) -> None:
        if value:
            self.values[kind, key] = _encode(value)
        else:
            self.values.pop((kind, key), None)

    def read_agenda(self) -> Agenda:
        return self._read("agenda", "", _agenda) or Agenda()

    def write_agenda(self, agenda: Agenda) -> None:
        self._write("agenda", "", agenda)

    def read_group(self, key: str) -> GroupState | None:
        group: GroupState | None = self._read("group", key, _group)
        return group

    def write_group(self, key: str, group: GroupState | None) -> None:
        self._write("group", key, group)

    def read_route(self, key: str) -> Route | None:
        route: Route | None = self._read("route", key, _route)
        return route

    def write_route(self, key: str, route: Route | None) -> None:
        self._write("route", key, route)

    def route_keys(self) -> list[str]:
        return [key for kind, key in self.values if kind == "route"]

    def read_channel(self, key: str) -> list[str]:
        return self._read("channel", key, _groups) or []

    def write_channel(self, key: str, groups: list[str]) -> None:
        self._write("channel", key, groups)

    def add_pending(self, chunks: list[Chunk]) -> None:
        if chunks:
            self.pending.append(encode_chunks(chunks))

    def take_pending(self) -> list[Chunk]:
        chunks = [chunk for packed in self.pending for chunk in decode_chunks(packed)]
        self.pending = []
        return chunks
