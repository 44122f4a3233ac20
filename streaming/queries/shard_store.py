"""Where the state of a shard is, as bytes by names: Spark's state store in the stream, a dictionary in the tests."""

from collections import Counter
from typing import Any, Protocol

from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from streaming.system.known_error import BalancewatchError


class ShardStore(Protocol):
    """Each call is one trip, but for `read_pending`, which takes one for some of its values."""

    def read_stamp(self) -> str | None: ...
    def write_stamp(self, stamp: str) -> None: ...
    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, value: bytes | None) -> None: ...
    def read_pending(self) -> list[bytes]: ...
    def add_pending(self, value: bytes) -> None: ...
    def clear_pending(self) -> None: ...


class StateError(BalancewatchError):
    """State written by another release cannot be read. The message says what to do."""


class StoreError(BalancewatchError):
    """The state store did not answer, or refused. The batch fails, and Spark runs it again."""


RETRIED = (StoreError, MemoryError)
"""Errors that no rule raises: the whole batch fails for them, and no group or broker is set aside."""


class SparkShardStore:
    """State variables of the operator. Each call costs about 70 µs on an idle machine, whatever the value's size."""

    _NAME = T.StructType([T.StructField("name", T.StringType())])
    _BYTES = T.StructType([T.StructField("value", T.BinaryType())])
    _TEXT = T.StructType([T.StructField("value", T.StringType())])

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._stamp = handle.getValueState("stamp", self._TEXT)
        self._values = handle.getMapState("values", self._NAME, self._BYTES)
        self._pending = handle.getListState("pending", self._BYTES)

    def read_stamp(self) -> str | None:
        value = self._stamp.get()
        return None if value is None else value[0]

    def write_stamp(self, stamp: str) -> None:
        self._stamp.update((stamp,))

    def read(self, name: str) -> bytes | None:
        value = self._values.getValue((name,))
        return None if value is None else bytes(value[0])

    def write(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._values.removeKey((name,))
        else:
            self._values.updateValue((name,), (value,))

    def read_pending(self) -> list[bytes]:
        return [bytes(value[0]) for value in self._pending.get()]

    def add_pending(self, value: bytes) -> None:
        self._pending.appendList([(value,)])

    def clear_pending(self) -> None:
        self._pending.clear()


class DictShardStore:
    """The same in memory. `trips` counts the calls by their names, `written` the bytes they wrote."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.pending: list[bytes] = []
        self.stamp: str | None = None
        self.trips: Counter[str] = Counter()
        self.written = 0

    def _note(self, call: str, value: Any = b"") -> None:
        self.trips[call] += 1
        self.written += len(value or b"")

    def read_stamp(self) -> str | None:
        self._note("read_stamp")
        return self.stamp

    def write_stamp(self, stamp: str) -> None:
        self._note("write_stamp", stamp)
        self.stamp = stamp

    def read(self, name: str) -> bytes | None:
        self._note("read")
        return self.values.get(name)

    def write(self, name: str, value: bytes | None) -> None:
        self._note("write", value)
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def read_pending(self) -> list[bytes]:
        self._note("read_pending")
        return list(self.pending)

    def add_pending(self, value: bytes) -> None:
        self._note("add_pending", value)
        self.pending.append(value)

    def clear_pending(self) -> None:
        self._note("clear_pending")
        self.pending = []
