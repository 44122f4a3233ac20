"""The sample messages of schemas/samples, by what their names say."""

from pathlib import Path
from typing import NamedTuple

from schemas.events import EVENTS

SAMPLES = Path(__file__).parents[2] / "schemas" / "samples"

INGEST_TIME_MS = 1_789_000_000_000
"""When every sample reached Kafka."""


class Sample(NamedTuple):
    """`good.<event>[.<what>].json`, or `bad.<reason>.<event>.json`; the event is its topic without `rocketmq.`."""

    name: str
    topic: str
    reason: str | None
    value: bytes


def read_samples() -> list[Sample]:
    samples = []
    for path in sorted(SAMPLES.glob("*.json")):
        kind, first, *rest = path.stem.split(".")
        event, reason = (first, None) if kind == "good" else (rest[0], first)
        topic = f"rocketmq.{event}"
        assert topic in EVENTS, f"{path.name} names no event"
        samples.append(Sample(path.stem, topic, reason, path.read_bytes()))
    return samples


GOOD = [sample for sample in read_samples() if sample.reason is None]
BAD = [sample for sample in read_samples() if sample.reason is not None]
