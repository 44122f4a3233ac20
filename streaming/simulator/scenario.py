"""A scenario as data: one TOML file, validated before it runs.

Times in a file are seconds of virtual time from the start. Field names are RocketMQ's.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from streaming.simulator.conditions import View
from streaming.simulator.expectation import Expectation
from streaming.simulator.happening import Happening
from streaming.simulator.parts import BrokerOrName, Group, Name, Part, Producer, Topic
from streaming.simulator.rollouts import Rollout, roll_out

SCENARIOS = Path(__file__).with_name("scenarios")


class ScenarioError(ValueError):
    """A scenario is invalid. The message has one sentence for each fault, with field and value."""


class Scenario(Part):
    """A cluster, its clients, what happens to them, and the alerts that are due.

    Without `duration_seconds` the scenario has no end.
    """

    description: str = Field(default="", description="what happens, and which alerts are due")
    healthy: bool = Field(default=False, description="no page is due")
    cluster: Name
    duration_seconds: float | None = Field(default=None, gt=0)
    clock_interval_ms: int = Field(default=5000, ge=1)
    view: View = Field(default="model", description="default view of a run")
    jitter: float = Field(default=0, ge=0, description="maximum seconds by which a seed shifts all happenings")
    brokers: tuple[BrokerOrName, ...] = Field(min_length=1)
    topics: tuple[Topic, ...] = Field(min_length=1)
    groups: tuple[Group, ...] = ()
    producers: tuple[Producer, ...] = ()
    rollouts: tuple[Rollout, ...] = Field(default=(), description="rollouts that add groups and happenings")
    happenings: tuple[Happening, ...] = ()
    expects: tuple[Expectation, ...] = ()

    @property
    def causes(self) -> frozenset[str]:
        """Why queues starve in it: the causes of its expected starved_queue findings, required or not."""
        return frozenset(
            expected.cause for expected in self.expects if expected.kind == "starved_queue" and expected.cause
        )

    @model_validator(mode="after")
    def _check(self) -> "Scenario":
        brokers = [broker.broker_name for broker in self.brokers]
        topics = {topic.topic for topic in self.topics}
        groups = [group.consumer_group for group in self.groups]
        consumers = [consumer.name for group in self.groups for consumer in group.consumers]
        _check_unique("brokers", brokers)
        _check_unique("topics", [topic.topic for topic in self.topics])
        _check_unique("groups", groups)
        _check_unique("consumers", consumers)
        for topic in self.topics:
            _check_known(f"topic {topic.topic!r}: broker_name", topic.broker_names or (), brokers)
        for group in self.groups:
            _check_known(f"group {group.consumer_group!r}: topic", group.subscriptions, topics)
            for consumer in group.consumers:
                of_consumer = (*(consumer.subscriptions or ()), *consumer.assigned_queues)
                _check_known(f"consumer {consumer.name!r}: topic", of_consumer, topics)
        for producer in self.producers:
            _check_known(f"producer {producer.client_id!r}: topic", producer.topics, topics)
        for happening in self.happenings:
            where = f"action {happening.action!r} at {happening.at:g}"
            _check_known(f"{where}: consumer", [happening.consumer], [None, *consumers])
            _check_known(f"{where}: broker_name", [happening.broker_name], [None, *brokers])
            _check_known(f"{where}: topic", [happening.topic, *(happening.subscriptions or ())], [None, *topics])
            _check_known(f"{where}: consumer_group", [happening.consumer_group], [None, *groups])
        for expected in self.expects:
            where = f"expected {expected.kind!r}"
            _check_known(f"{where}: broker_name", [expected.broker_name], [None, *brokers])
            _check_known(f"{where}: topic", [expected.topic], [None, *topics])
            _check_known(f"{where}: consumer_group", [expected.consumer_group], [None, *groups])
        if self.healthy and any(expected.required for expected in self.expects):
            raise ValueError("healthy = true excludes required findings")
        return self


def _check_unique(what: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{what}: duplicate {twice[0]!r}")


def _check_known(what: str, names: Iterable[str | None], known: Iterable[str | None]) -> None:
    choice = set(known)
    for name in names:
        if name not in choice:
            listed = ", ".join(sorted(item for item in choice if item is not None))
            raise ValueError(f"{what} {name!r} is not one of {listed or 'none'}")


def scenario_names() -> list[str]:
    """Return the names of the packaged scenarios."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """Load a scenario by name or from a TOML file. Raises ScenarioError."""
    path = Path(name_or_path)
    if str(name_or_path) in scenario_names():
        path = SCENARIOS / f"{name_or_path}.toml"
    elif not path.is_file():
        choice = ", ".join(scenario_names())
        raise ScenarioError(f"scenario {str(name_or_path)!r} is neither a file nor one of {choice}")
    try:
        return parse_scenario(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(f"scenario {str(name_or_path)!r} cannot be read: {error}") from None


def parse_scenario(fields: dict[str, Any]) -> Scenario:
    """Return the scenario of parsed TOML. Raises ScenarioError."""
    try:
        scenario = Scenario.model_validate(fields)
        if not scenario.rollouts:
            return scenario
        groups, happenings = roll_out(scenario.rollouts)
        whole = {name: value for name, value in scenario.model_dump(by_alias=True).items() if name != "rollouts"}
        whole["groups"] = [*whole["groups"], *groups]
        whole["happenings"] = [*whole["happenings"], *happenings]
        return Scenario.model_validate(whole)
    except ValidationError as error:
        raise ScenarioError("; ".join(_sentence(dict(fault)) for fault in error.errors())) from None


def _sentence(fault: dict[str, Any]) -> str:
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{key} is not a field of a scenario"
    if fault["type"] == "missing":
        return f"{key} is missing"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return f"{key}: {message}" if key else message
    return f"{key} = {fault['input']!r}: {message[:1].lower()}{message[1:]}"
