"""Runs of the modelled cluster for tests: a scenario by name, or the healthy one with changes."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from schemas.events import HEARTBEATS, PULLS
from streaming.simulator.scenario import Scenario, load_scenario, parse_scenario
from tests.lab.score.truth import TrueSimulation
from udfs.rocketmq.model import MessageQueue

START = 1_700_000_000_000
SECOND, MINUTE = 1_000, 60_000

Events = list[tuple[str, dict[str, Any]]]
Run = tuple[TrueSimulation, Events]


def run(scenario: str | Scenario, seed: int = 1, duration_ms: int | None = None) -> Run:
    """A scenario played to its end, or for `duration_ms`."""
    simulation = TrueSimulation(load_scenario(scenario) if isinstance(scenario, str) else scenario, seed, START)
    return simulation, list(simulation.events(duration_ms))


def healthy(**changes: Any) -> Scenario:
    """healthy.toml with other fields: three consumers of one group, 16 queues on two brokers, two producers.

    Fields of the only group and topic go in as group_... and topic_...
    """
    fields: dict[str, Any] = {**load_scenario("healthy").model_dump(), "healthy": False}
    for part in ("group", "topic"):
        prefix = f"{part}_"
        of_part = {name.removeprefix(prefix): value for name, value in changes.items() if name.startswith(prefix)}
        fields[f"{part}s"] = [{**fields[f"{part}s"][0], **of_part}]
        changes = {name: value for name, value in changes.items() if not name.startswith(prefix)}
    return parse_scenario(fields | changes)


def of(events: Iterable[tuple[str, dict[str, Any]]], topic: str) -> list[dict[str, Any]]:
    """The events of one topic."""
    return [event for name, event in events if name == topic]


def between(events: Events, topic: str, from_seconds: float, to_seconds: float) -> list[dict[str, Any]]:
    """The events of one topic in an interval of the run."""
    from_ms, to_ms = START + from_seconds * SECOND, START + to_seconds * SECOND
    return [event for event in of(events, topic) if from_ms <= event["event_time_ms"] < to_ms]


def mq_of(pull: dict[str, Any]) -> MessageQueue:
    return MessageQueue(pull["topic"], pull["broker_name"], pull["queue_id"])


def pulled(events: Events, from_seconds: float, to_seconds: float) -> dict[MessageQueue, set[str]]:
    """Each queue that was pulled in an interval, with the hosts that pulled it."""
    hosts: dict[MessageQueue, set[str]] = defaultdict(set)
    for pull in between(events, PULLS, from_seconds, to_seconds):
        hosts[mq_of(pull)].add(pull["client_addr"].split(":")[0])
    return hosts


def seconds(event: dict[str, Any]) -> float:
    """When an event was, in seconds of the run."""
    return float(event["event_time_ms"] - START) / SECOND


def heartbeats_of(events: Events, host: str) -> list[dict[str, Any]]:
    """The heartbeats of one host."""
    return [beat for beat in of(events, HEARTBEATS) if beat["client_addr"].split(":")[0] == host]
