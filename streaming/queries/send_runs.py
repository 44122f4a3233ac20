"""Send latencies by columns run-lengthed: Python sees a producer's run of quick attempts only at its two ends.

Each producer and broker has a builder of its own. The columns are worked through builder by builder, so that all
attempts of one stand together, in the order they came in.
"""

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from schemas.numbers_in_text import Integers
from schemas.send_columns import Sends
from streaming.queries.event_time import SLACK_MS, Lags
from udfs.brokers.skew import WINDOW_MS
from udfs.producers.attempts import QUIET_MS, AttemptsBuilder

Builders = MutableMapping[tuple[str, str, str, str], AttemptsBuilder]
"""(cluster, broker_name, client_id, client_version) to what collects its attempts."""


def builder_for(builders: Builders, event: Any) -> AttemptsBuilder:
    """A new one where there is none."""
    key = event.cluster, event.broker_name, event.client_id, event.client_version
    builder = builders.get(key)
    if builder is None:
        builder = builders[key] = AttemptsBuilder(event.client_id, event.client_version)
    return builder


def add_runs(sends: Sends, ingest_time_ms: Integers, builders: Builders, lags: Lags) -> None:
    """Do to builders and lags what adding each good attempt by itself does."""
    rows = np.flatnonzero(sends.which >= 0)
    if not len(rows):
        return
    of_event = _builders_of_events(sends, rows, builders)
    numbers: dict[AttemptsBuilder, int] = {}
    number_of = np.array([numbers.setdefault(builder, len(numbers)) for builder in of_event], np.int32)
    rows = rows[_sorted_stably(number_of[sends.which[rows]])]
    which, time_ms, ingested_ms = sends.which[rows], sends.event_time_ms[rows], ingest_time_ms[rows]
    same_builder = np.diff(number_of[which]) == 0
    _note_lags(sends.events, which, same_builder, ingested_ms - time_ms, ingested_ms, lags)
    time_ms = np.where(time_ms - SLACK_MS > ingested_ms, ingested_ms, time_ms)  # event_time.not_after
    _add_runs(sends.events, of_event, which, same_builder, time_ms, sends.latency_ms[rows])


def _builders_of_events(sends: Sends, rows: Integers, builders: Builders) -> list[AttemptsBuilder]:
    """By the events' places. A new one is made when its first attempt comes; of no attempt none is kept."""
    first_row = np.full(len(sends.events), len(sends.which))
    first_row[sends.which[rows[::-1]]] = rows[::-1]
    of_place: dict[int, AttemptsBuilder] = {}
    unused: Builders = {}
    for place in np.argsort(first_row, kind="stable").tolist():
        is_used = first_row[place] < len(sends.which)
        of_place[place] = builder_for(builders if is_used else unused, sends.events[place])
    return [of_place[place] for place in range(len(sends.events))]


def _sorted_stably(numbers: Integers) -> Integers:
    """The order that sorts them; numpy sorts small integers by radix."""
    small = np.uint16 if len(numbers) <= 1 << 16 or numbers.max() < 1 << 16 else np.int64
    return np.argsort(numbers.astype(small), kind="stable")


def _note_lags(
    events: list[Any], which: Integers, same_builder: Any, lag_ms: Integers, ingested_ms: Integers, lags: Lags
) -> None:
    """The least of each stretch of one builder and one of the lags' windows."""
    same_window = np.diff(ingested_ms // WINDOW_MS) == 0
    first = np.flatnonzero(np.append(True, ~(same_builder & same_window)))
    for place, least_ms, time_ms in zip(
        which[first].tolist(), np.minimum.reduceat(lag_ms, first).tolist(), ingested_ms[first].tolist(), strict=True
    ):
        event = events[place]
        lags.note_send(event.cluster, event.broker_name, event.client_id, least_ms, time_ms)


def _add_runs(
    events: list[Any],
    of_event: list[AttemptsBuilder],
    which: Integers,
    same_builder: Any,
    time_ms: Integers,
    latency_ms: Integers,
) -> None:
    """One attempt after the other; of quick ones in order and close together only the first and the last."""
    ends = [(event.isolation, event.reachable is not False) for event in events]
    quick_below = [builder.quick_below(*end) for builder, end in zip(of_event, ends, strict=True)]
    is_quick = latency_ms < np.array(quick_below)[which]
    later_ms = np.diff(time_ms)
    goes_on = same_builder & is_quick[1:] & is_quick[:-1] & (later_ms >= 0) & (later_ms < QUIET_MS)
    first = np.flatnonzero(np.append(True, ~goes_on))
    last = np.append(first[1:], len(which)) - 1
    columns = (which[first], time_ms[first], latency_ms[first], last > first, time_ms[last], latency_ms[last])
    for place, from_ms, first_latency_ms, is_run, to_ms, last_latency_ms in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        of_event[place].add(from_ms, first_latency_ms, *ends[place])
        if is_run:
            of_event[place].go_on(to_ms, last_latency_ms)
