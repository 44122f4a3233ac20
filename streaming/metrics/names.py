"""All metrics, as README.md declares them: name, kind, labels and help text. The code uses them by name.

The gauges of the tables leave out the canary's cluster. Groups and brokers beyond `metrics.max_groups` are summed under
the name "other".
"""

import re
from importlib.resources import files
from typing import NamedTuple

_SECTION = re.compile(
    r"(?m)^### (?P<name>\w+)\n\n(?P<says>.+)\n\n\*(?P<kind>gauge|counter|histogram),(?P<labels>.*)\*$"
)
"""A metric's section: its name, its help text, and a line such as *gauge, queues, by `cluster`*."""

SHORT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Buckets in seconds, from a step of a batch to a batch that catches up after an outage."""

LONG = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Buckets in seconds, from an immediate page to one that waited for its receiver."""

BUCKETS = {
    "balancewatch_canary_latency_seconds": LONG,
    "balancewatch_delivery_seconds": LONG,
    "balancewatch_delivery_attempt_seconds": SHORT,
    "balancewatch_batch_phase_seconds": SHORT,
    "balancewatch_state_commit_seconds": SHORT,
}


class Metric(NamedTuple):
    """A family of series. `buckets` of a histogram are the upper bounds in seconds.

    `kind` is gauge, a current value; counter, which grows from 0 at each start and whose name ends in _total; or
    histogram.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    says: str
    buckets: tuple[float, ...]


METRICS = tuple(
    Metric(
        section["name"],
        section["kind"],
        tuple(re.findall("`(.+?)`", section["labels"])),
        section["says"],
        BUCKETS.get(section["name"], ()),
    )
    for section in _SECTION.finditer((files("streaming.metrics") / "README.md").read_text(encoding="utf-8"))
)
"""All metrics, in the order of the page."""
