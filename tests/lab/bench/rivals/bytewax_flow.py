"""bytewax: a stateful step a broker, which holds its items; rows collected for a commit; recovery to SQLite."""

import copy
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from tests.lab.bench.rivals.broker_items import apply_attempt, decode_attempt
from tests.lab.bench.rivals.work import CONSUMER, TOPIC, Clock, DeltaRows, Row, Work, mark_ready, read_work
from udfs.producers.board import Item

BATCH = 10_000
MOST_ROWS = 50_000


class BrokerLogic(StatefulBatchLogic):  # type: ignore[misc]  # its package is in an environment of its own
    """A broker's items: client_id → Item."""

    def __init__(self, items: dict[str, Item] | None, clock: Clock) -> None:
        self._items = items or {}
        self._clock = clock

    def on_batch(self, batch: list[bytes]) -> tuple[Iterable[Row], bool]:
        items, rows = self._items, []
        for value in batch:
            attempt = decode_attempt(value)
            items[attempt.client_id], found = apply_attempt(items.get(attempt.client_id), attempt)
            if found:
                rows += found
        self._clock.count(len(batch))
        return rows, False

    def snapshot(self) -> dict[str, Item]:
        return {client_id: copy.copy(item) for client_id, item in self._items.items()}


class DeltaPart(StatelessSinkPartition):  # type: ignore[misc]  # the same
    """What is handed over at a time becomes a commit."""

    def __init__(self, rows: DeltaRows) -> None:
        self._rows = rows

    def write_batch(self, items: list[list[Row]]) -> None:
        for rows in items:
            self._rows.add(rows)
        self._rows.commit()


class DeltaSink(DynamicSink):  # type: ignore[misc]  # the same
    def __init__(self, work: Work) -> None:
        self._work = work

    def build(self, step_id: str, worker_index: int, worker_count: int) -> DeltaPart:
        return DeltaPart(DeltaRows(self._work))


def flow_of(work: Work, clock: Clock) -> Dataflow:
    flow = Dataflow("fault_items")
    source = KafkaSource(
        [work.bootstrap_servers], [TOPIC], tail=work.is_live, add_config=dict(CONSUMER), batch_size=BATCH
    )
    messages = op.input("read", flow, source)
    keyed = op.flat_map_batch("key", messages, _by_broker)
    rows = op.stateful_batch("items", keyed, lambda items: BrokerLogic(items, clock))
    op.output("write", _gathered(work, op.key_rm("rows", rows)), DeltaSink(work))
    return flow


def _gathered(work: Work, rows: Any) -> Any:
    """Lists of rows. Live each is written as it comes: the timer of `collect` may be a second late."""
    if work.is_live:
        return op.map("alone", rows, lambda row: [row])
    as_one = op.key_on("as one", rows, lambda _: "rows")
    return op.key_rm("lists", op.collect("collect", as_one, timedelta(seconds=work.commit_seconds), MOST_ROWS))


def _by_broker(messages: list[Any]) -> list[tuple[str, bytes]]:
    """The message's key is its cluster and broker."""
    return [(message.key.decode(), message.value) for message in messages]


def main() -> None:
    work = read_work()
    clock = Clock(work)
    kept = work.folder / "state"
    kept.mkdir(parents=True)
    init_db_dir(kept, 1)
    mark_ready(work)
    cli_main(flow_of(work, clock), recovery_config=RecoveryConfig(str(kept)))
    clock.report()


if __name__ == "__main__":
    main()
