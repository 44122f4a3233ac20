"""All metrics, as README.md declares them: name, kind, labels and help text, and what to do when a value rises.

The gauges of the tables leave out the canary's cluster. Groups and brokers beyond `metrics.max_groups` are summed under
the name "other".
"""

import re
from dataclasses import dataclass
from importlib.resources import files

_SECTION = re.compile(
    r"(?m)^### (?P<name>\w+)\n\n(?P<says>.+)\n\n\*(?P<kind>gauge|counter|histogram),(?P<labels>.*)\*$"
)
_PAGE = (files("streaming.metrics") / "README.md").read_text(encoding="utf-8")
_SECTIONS = {section["name"]: section for section in _SECTION.finditer(_PAGE)}


@dataclass(frozen=True, eq=False)
class Metric:
    """A family of series, compared by identity. `buckets` of a histogram are the upper bounds in seconds.

    `kind` is gauge, a current value; counter, which grows from 0 at each start and whose name ends in _total; or
    histogram.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    says: str
    buckets: tuple[float, ...]


def _metric(name: str, buckets: tuple[float, ...] = ()) -> Metric:
    """Return the metric by its section of the page: its help text, and a line such as *gauge, queues, by `cluster`*."""
    section = _SECTIONS.get(name)
    if section is None:
        raise LookupError(f"streaming/metrics/README.md has no section {name}")
    return Metric(name, section["kind"], tuple(re.findall("`(.+?)`", section["labels"])), section["says"], buckets)


SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Buckets in seconds, from a step of a batch to a batch that catches up after an outage."""

LONG = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Buckets in seconds, from an immediate page to one that waited for its receiver."""

QUEUES = _metric("balancewatch_queues")
MEMBERS = _metric("balancewatch_members")
CLIENT_IDS = _metric("balancewatch_client_ids")
UNAVAILABLE_PRODUCERS = _metric("balancewatch_unavailable_producers")
PRODUCERS = _metric("balancewatch_producers")
GROUPS = _metric("balancewatch_groups")
FOLDED = _metric("balancewatch_series_limited")
INCIDENTS = _metric("balancewatch_incidents")
CANARY_SECONDS = _metric("balancewatch_canary_latency_seconds", LONG)
CANARY_AGE = _metric("balancewatch_canary_age_seconds")
CANARY_INTERVAL = _metric("balancewatch_canary_interval_seconds")
DELIVERY_ATTEMPTS = _metric("balancewatch_delivery_attempts_total")
DELIVERY_DECISIONS = _metric("balancewatch_delivery_decisions_total")
DELIVERY_SECONDS = _metric("balancewatch_delivery_seconds", LONG)
ATTEMPT_SECONDS = _metric("balancewatch_delivery_attempt_seconds", SHORT)
DUE_NOTICES = _metric("balancewatch_notifications_pending")
RELAY_RESTARTS = _metric("balancewatch_relay_restarts_total")

PHASE_SECONDS = _metric("balancewatch_batch_phase_seconds", SHORT)
MESSAGES = _metric("balancewatch_messages_total")
PROCESSED = _metric("balancewatch_processed_rows_per_second")
LAG = _metric("balancewatch_kafka_lag_messages")
LAG_MAX = _metric("balancewatch_kafka_lag_max_messages")
EVENT_TIME_GAP = _metric("balancewatch_event_time_lag_seconds")
PROGRESS_AGE = _metric("balancewatch_progress_age_seconds")
JVM_AGE = _metric("balancewatch_jvm_age_seconds")
JVM_HEAP = _metric("balancewatch_jvm_heap_bytes")
JVM_HEAP_MAX = _metric("balancewatch_jvm_heap_max_bytes")
STATE_ROWS = _metric("balancewatch_state_rows_updated_total")
STATE_MEMORY = _metric("balancewatch_state_memory_bytes")
STATE_FILES = _metric("balancewatch_state_files_bytes")
STATE_COMMIT = _metric("balancewatch_state_commit_seconds", SHORT)
QUERY_STARTS = _metric("balancewatch_query_starts_total")
RULES_TAKEN = _metric("balancewatch_rules_taken_total")
ROWS_WRITTEN = _metric("balancewatch_rows_written_total")
QUARANTINED_MESSAGES = _metric("balancewatch_quarantined_messages_total")
QUARANTINED = _metric("balancewatch_quarantined_total")
TABLE_AGE = _metric("balancewatch_table_age_seconds")
PART_ALIVE = _metric("balancewatch_part_alive")
LOG_LINES = _metric("balancewatch_log_lines_total")
BUILD_INFO = _metric("balancewatch_build_info")

METRICS = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""All metrics, in the order of this file."""
