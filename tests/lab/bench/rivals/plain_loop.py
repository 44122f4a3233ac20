"""The floor: confluent-kafka, a dict of items, deltalake. Its state does not outlive it."""

import signal
import time

from confluent_kafka import Consumer

from tests.lab.bench.rivals.broker_items import apply_attempt, decode_attempt
from tests.lab.bench.rivals.work import CONSUMER, TOPIC, Clock, DeltaRows, Work, mark_ready, read_work
from udfs.producers.board import Item

BATCH = 10_000
POLL_SECONDS = 0.02


def main() -> None:
    work = read_work()
    is_stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: is_stopped.append(number))
    consumer = Consumer(
        {
            "bootstrap.servers": work.bootstrap_servers,
            "group.id": work.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **CONSUMER,
        }
    )
    consumer.subscribe([TOPIC])
    clock = Clock(work)
    mark_ready(work)
    _loop(work, consumer, clock, is_stopped)
    consumer.close()
    clock.report()


def _loop(work: Work, consumer: Consumer, clock: Clock, is_stopped: list[int]) -> None:
    items: dict[tuple[str, str, str], Item] = {}
    rows, committed, is_done = DeltaRows(work), time.monotonic(), False
    while not is_done and not is_stopped:
        messages = consumer.consume(BATCH, POLL_SECONDS)
        for message in messages:
            attempt = decode_attempt(message.value())
            key = (attempt.cluster, attempt.broker_name, attempt.client_id)
            items[key], found = apply_attempt(items.get(key), attempt)
            if found:
                rows.add(found)
        is_done = clock.count(len(messages))
        if is_done or time.monotonic() - committed >= work.commit_seconds:
            rows.commit()
            if clock.events:
                consumer.commit(asynchronous=True)
            committed = time.monotonic()
    rows.commit()


if __name__ == "__main__":
    main()
