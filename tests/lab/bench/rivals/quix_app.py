"""quixstreams: state a client under the message's key, in RocksDB with its changelog; rows flushed at checkpoints."""

from dataclasses import fields
from operator import attrgetter
from typing import Any

from quixstreams import Application
from quixstreams.sinks.base import BaseSink

from tests.lab.bench.rivals.broker_items import apply_attempt, decode_attempt
from tests.lab.bench.rivals.work import CONSUMER, TOPIC, Clock, DeltaRows, Row, mark_ready, read_work
from udfs.producers.board import Item

_values = attrgetter(*(field.name for field in fields(Item)))


def keep_item(value: bytes, state: Any) -> list[Row]:
    """One attempt: read its client's item of the broker, and write it back."""
    attempt = decode_attempt(value)
    known = state.get(attempt.client_id)
    item, rows = apply_attempt(None if known is None else Item(*known), attempt)
    state.set(attempt.client_id, _values(item))
    return rows


class DeltaSink(BaseSink):  # type: ignore[misc]  # its package is in an environment of its own
    """One Delta commit a checkpoint."""

    def __init__(self, rows: DeltaRows) -> None:
        super().__init__()
        self._rows = rows

    def add(self, value: Row, key: Any, timestamp: int, headers: Any, topic: str, partition: int, offset: int) -> None:
        self._rows.add([value])

    def flush(self) -> None:
        self._rows.commit()


def main() -> None:
    work = read_work()
    clock = Clock(work)

    def count(topic: str, partition: int, offset: int) -> None:
        if clock.count(1):
            app.stop()

    app = Application(
        broker_address=work.bootstrap_servers,
        consumer_group=work.group,
        auto_offset_reset="earliest",
        commit_interval=work.commit_seconds,
        consumer_extra_config=dict(CONSUMER),
        state_dir=work.folder / "state",
        on_message_processed=count,
        loglevel="WARNING",
    )
    sends = app.dataframe(app.topic(TOPIC, key_deserializer="str", value_deserializer="bytes"))
    sends.apply(keep_item, stateful=True, expand=True).sink(DeltaSink(DeltaRows(work)))
    mark_ready(work)
    app.run()
    clock.report()


if __name__ == "__main__":
    main()
