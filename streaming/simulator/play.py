"""Playing a simulation to Kafka: in step with the wall clock or at full speed."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher
from streaming.simulator.world import Said

_SLEEP_FROM_SECONDS = 0.001


def play(
    events: Iterable[tuple[str, dict[str, Any]] | Said],
    publisher: Publisher,
    *,
    speed: float | None,
    stop: threading.Event,
    never_early: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> int:
    """Publish every event and return their number; fewer if `stop` is set.

    `speed` 1 is real time, 20 is twenty times as fast, None is full speed; it counts from the first event and the
    moment of the call. Everything before a clock event is in Kafka before it. With `never_early` no event is published
    before its own time: a run that starts in the past catches up, then is live. `on_progress(events, event_time_ms)`
    is called at each clock event.
    """
    count = 0
    first_ms: int | None = None
    started = time.monotonic()
    for topic, event, *said in events:
        event_time_ms = said[0] if said else event["event_time_ms"]
        if first_ms is None:
            first_ms = event_time_ms
        if speed is not None:
            early = started + (event_time_ms - first_ms) / 1000 / speed - time.monotonic()
            if never_early:
                early = max(early, event_time_ms / 1000 - time.time())
            if early > _SLEEP_FROM_SECONDS:
                stop.wait(early)
        if stop.is_set():
            break
        if topic == CLOCKS:
            publisher.flush()
        publisher.publish(topic, event)
        count += 1
        if topic == CLOCKS and on_progress is not None:
            on_progress(count, event_time_ms)
    publisher.flush()
    return count
