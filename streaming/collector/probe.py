"""The probe: one small message to every broker each round, and how long it took."""

import time
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from typing import Protocol

import structlog

from streaming.collector.access import is_refused
from streaming.collector.reading import Latency
from streaming.collector.rocketmq_answers import Broker
from streaming.collector.rocketmq_jvm import RocketMQError

log = structlog.get_logger()


class ProbeSource(Protocol):
    """Who sends the probe's messages."""

    client_version: str

    def start_producer(self, group: str) -> str: ...
    def prepare_send(self, broker: Broker, topic: str) -> bool: ...
    def send(self, broker_name: str, topic: str, body: bytes) -> tuple[str, float]: ...


class Probe:
    """Sends; remembers where its topic is ready."""

    def __init__(self, source: ProbeSource, pool: Executor, topic: str) -> None:
        self._source = source
        self._pool = pool
        self._topic = topic
        self._prepared: set[str] = set()
        self._refused: set[str] = set()

    def start(self, brokers: Iterable[Broker]) -> list[Future[Latency | None]]:
        """A message to each; None of a broker until the topic was ready there once."""
        try:
            client_id = self._source.start_producer(self._topic)
        except RocketMQError as error:
            log.warning("probe producer not started", error=str(error))
            return []
        return [self._pool.submit(self._send, broker, client_id) for broker in brokers]

    def _send(self, broker: Broker, client_id: str) -> Latency | None:
        topic, name = self._topic, broker.broker_name
        if name not in self._prepared:
            try:
                if not self._source.prepare_send(broker, topic):
                    return None
            except RocketMQError as error:
                log.debug("probe topic not prepared", broker_name=name, error=str(error))
                return None
            self._prepared.add(name)
        started = time.perf_counter()
        status: str | None = None
        try:
            status, elapsed = self._source.send(name, topic, b"balancewatch probe")
        except RocketMQError as error:
            if is_refused(error):
                self._note_refusal(name, error)
                return None  # the broker serves those that may send
            elapsed = time.perf_counter() - started
            log.debug("probe failed", broker_name=name, error=str(error))
        event_time_ms = int(time.time() * 1000)
        version = self._source.client_version
        return Latency(client_id, version, topic, name, round(elapsed * 1000), status, event_time_ms)

    def _note_refusal(self, name: str, error: RocketMQError) -> None:
        if name not in self._refused:
            log.warning("probe refused", broker_name=name, topic=self._topic, error=str(error))
        self._refused.add(name)
