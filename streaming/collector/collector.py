"""The collector: polls a RocketMQ cluster and publishes each round's events, ended by a clock event.

A broker's data is only as fresh as the client's last heartbeat, so heartbeats carry that time. If Kafka does not
acknowledge a round's events, the next round derives them again: events may come twice, none is lost while it holds, and
no backlog grows. A round's time is the wall clock's, also after that was set back.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping

import structlog
from kafka.errors import KafkaError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, stop_never
from tenacity.wait import wait_random_exponential

from conf.settings import Collector, Settings
from streaming.collector.access import explain_tls
from streaming.collector.known_brokers import Forgotten, KnownBrokers
from streaming.collector.lease import CollectorName, LeaseLostError, Turn
from streaming.collector.reading import Reading
from streaming.collector.rocketmq_admin import RocketMQAdmin
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.collector.round_events import clock_event, compute_round
from streaming.collector.round_memory import Memory
from streaming.collector.round_reader import RoundReader
from streaming.kafka_io.publisher import EventTooLargeError, Publisher, PublishError
from streaming.kafka_io.topics import KafkaUnreachableError, create_topics
from streaming.system.stopping import StoppedError, run_unless_stopped

SUMMARY_SECONDS = 600.0
START_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 30.0
DELIVERY_SECONDS = 10.0
TURN_SECONDS = 0.5
"""Period in which a standby checks whether it leads."""

STEP_BACK_MS = 3_000
"""Steps back of a clock (NTP) up to this are waited out; the round's time does not move meanwhile."""

UNAVAILABLE = (RocketMQError, PublishError, KafkaUnreachableError)
"""Errors that are retried."""

log = structlog.get_logger()


class Tally:
    """Counts of published, asked and missed data, logged every SUMMARY_SECONDS."""

    def __init__(self, settings: Collector) -> None:
        self._settings = settings
        self._counters: dict[str, Counter[str]] = {
            name: Counter() for name in ("events", "brokers_missed", "unheard", "requests", "held_back")
        }
        self._last_summary = time.monotonic()
        self._bound_at = -SUMMARY_SECONDS

    def add(
        self, reading: Reading, topics: Iterable[str], requests: Mapping[str, int], held_back: Mapping[str, int]
    ) -> None:
        """Add a published round: the topics of its events, and per server its requests and those held back.

        Log, once per SUMMARY_SECONDS, that the limit on requests costs data or time.
        """
        self._counters["events"].update(topics)
        self._counters["brokers_missed"].update(set(reading.brokers_asked) - set(reading.brokers))
        self._counters["unheard"].update(each.reason for each in reading.unheard)
        self._counters["requests"].update(requests)
        self._counters["held_back"].update(held_back)
        now = time.monotonic()
        bound = sorted(server for server, held in held_back.items() if held > requests[server] / 2)
        unreached = sum(each.reason == "no_time" for each in reading.unheard)
        is_late = reading.took_ms > self._settings.interval_seconds * 1000
        if bound and (unreached or is_late) and now - self._bound_at >= SUMMARY_SECONDS:
            self._bound_at = now
            log.warning(
                "round throttled by collector.requests_per_second",
                requests_per_second=self._settings.requests_per_second,
                servers=bound,
                requests=sum(requests[server] for server in bound),
                unreached=unreached,
                seconds=round(reading.took_ms / 1000, 1),
            )
        if now - self._last_summary > SUMMARY_SECONDS:
            self.log_summary()

    def log_summary(self) -> None:
        log.info("collected", **{name: dict(counter) for name, counter in self._counters.items()})
        for counter in self._counters.values():
            counter.clear()
        self._last_summary = time.monotonic()


def run_collector(settings: Settings, stop: threading.Event, *, rounds: int | None = None) -> None:
    """Collect until `stop` is set, or for a number of rounds. `stop` also ends the current round.

    The first round is retried for START_SECONDS, then RocketMQError, PublishError or KafkaUnreachableError is raised;
    a later round is retried until it succeeds. Raises CollectorError for invalid settings.
    """
    log.info(
        "collector started",
        name_server=settings.collector.name_server,
        interval_seconds=settings.collector.interval_seconds,
    )
    with contextlib.closing(_Collector(settings)) as collector, contextlib.suppress(StoppedError):
        done = 0
        while not stop.is_set() and (rounds is None or done < rounds):
            started = time.monotonic()
            for attempt in _retrying(stop, START_SECONDS if done == 0 else None):
                with attempt:
                    run_unless_stopped(collector.take_turn, stop)
            if not collector.turn.is_ours:
                stop.wait(TURN_SECONDS)
                continue
            done += 1
            took = time.monotonic() - started
            if took > settings.collector.interval_seconds:
                log.warning("round exceeded collector.interval_seconds", seconds=round(took, 1))
            if rounds is None or done < rounds:
                stop.wait(max(0.0, settings.collector.interval_seconds - took))
        collector.tally.log_summary()


class _Collector:
    """The connections of a collector, and its memory between rounds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin: RocketMQAdmin | None = None
        self._reader: RoundReader | None = None
        self._publisher: Publisher | None = None
        collector = settings.collector
        self._name = CollectorName(collector)
        interval_ms = max(1, round(collector.interval_seconds * 1000))
        self._source = {"collector": self._name.text, "interval_ms": interval_ms, "groups": sorted(collector.groups)}
        self.turn = Turn(settings.kafka, collector, self._name)
        self._brokers = KnownBrokers(collector.name_server, collector.cluster)
        self._forgotten = Forgotten(settings.kafka)
        self._memory = Memory()
        self._round_time_ms = 0
        self.tally = Tally(collector)
        self._is_closed = False

    def take_turn(self) -> None:
        """Run a round if no other collector leads. Raises UNAVAILABLE errors, and offers the lease then."""
        self._publisher = self._publisher or self._connect_kafka()
        if self.turn.take():
            self._memory = Memory()
        if not self.turn.is_ours:
            return
        try:
            self.run_round()
        except LeaseLostError:
            log.warning("round discarded", reason="the lease was lost; another collector may lead")
        except UNAVAILABLE:
            self.turn.offer()
            raise

    def run_round(self) -> None:
        """Read, publish, and end the round with its clock event. Raises UNAVAILABLE errors."""
        started = time.monotonic()
        publisher = self._publisher or self._connect_kafka()
        known = self._brokers
        known.forget(self._forgotten.read_brokers(known.cluster, known.by_name))
        reader = self._connected_reader()
        try:
            reading = reader.read()
        except RocketMQError as error:
            servers = self._settings.collector.name_server.split(";")
            if why := next(filter(None, (explain_tls(self._settings.collector, server) for server in servers)), ""):
                raise RocketMQError(why) from error
            raise
        if self._admin is None or not self._admin.is_alive():
            raise RocketMQError("the RocketMQ client's JVM died")
        read_seconds = time.monotonic() - started
        now_ms = int(time.time() * 1000)
        if self._round_time_ms - now_ms > STEP_BACK_MS:
            log.warning("clock set back, using the new time", back_ms=self._round_time_ms - now_ms)
            self._memory = self._memory.after_a_step_back(now_ms)
            self._round_time_ms = now_ms
        self._round_time_ms = max(now_ms, self._round_time_ms)
        events, memory = compute_round(self._memory, reading, self._round_time_ms)
        self.turn.check()
        for topic, event in events:
            try:
                publisher.publish(topic, event)
            except EventTooLargeError as error:  # one client's subscriptions must not stop the round
                log.warning("event not published", reason=str(error))
        publisher.flush()
        self.turn.check()
        publisher.publish(*clock_event(self._source, reading, self._memory, memory, self._round_time_ms))
        publisher.flush()
        self._memory = memory
        self.turn.note_brokers(len(reading.brokers))
        requests, held_back = self._admin.rate.take_counts()
        self.tally.add(reading, [topic for topic, _ in events], requests, held_back)
        log.debug(
            "round",
            requests=requests,
            held_back=held_back,
            unheard=len(reading.unheard),
            events=len(events),
            brokers_answered=len(reading.brokers),
            brokers_asked=len(reading.brokers_asked),
            read_seconds=round(read_seconds, 3),
            seconds=round(time.monotonic() - started, 3),
        )

    def close(self) -> None:
        self._is_closed = True
        if self._reader:
            self._reader.close()
        if self._admin:
            self._admin.close()
        self.turn.close()
        with contextlib.suppress(KafkaError):  # unacknowledged events are derived again after a restart
            self._forgotten.close()
            if self._publisher:
                self._publisher.close()
        self._name.close()

    def _connect_kafka(self) -> Publisher:
        create_topics(self._settings.kafka, wait_seconds=0)
        self._publisher = Publisher(self._settings.kafka, delivery_seconds=DELIVERY_SECONDS)
        return self._publisher

    def _connected_reader(self) -> RoundReader:
        """Return the reader, with a new JVM if there is none or it died."""
        if self._admin is not None and self._reader is not None and self._admin.is_alive():
            return self._reader
        if self._reader is not None and self._admin is not None:
            log.warning("jvm restarted", reason="the RocketMQ client's JVM died")
            self._reader.close()
            self._admin.close()
        admin = RocketMQAdmin(self._settings.collector, self._settings.paths.jars)
        if self._is_closed:
            admin.close()
            raise StoppedError
        self._admin = admin
        self._reader = RoundReader(self._settings.collector, self._admin, self._brokers)
        return self._reader


def _retrying(stop: threading.Event, seconds: float | None) -> Retrying:
    """Return retries with growing, jittered waits, for `seconds` (None: endless). `stop` ends a wait at once."""

    def sleep(wait_seconds: float) -> None:
        if stop.wait(wait_seconds):
            raise StoppedError

    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait_seconds = state.next_action.sleep if state.next_action else 0.0
        log.warning("round failed", error=str(error), attempt=state.attempt_number, retry_in=round(wait_seconds, 1))

    return Retrying(
        sleep=sleep,
        wait=wait_random_exponential(multiplier=1, min=0.2, max=LONGEST_WAIT_SECONDS),
        stop=stop_never if seconds is None else stop_after_delay(seconds),
        retry=retry_if_exception_type(UNAVAILABLE),
        before_sleep=report,
        reraise=True,
    )
