"""A scenario as data: one TOML file, validated before it runs.

Times in a file are seconds of virtual time from the start. Field names are RocketMQ's.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from streaming.simulator.parts import (
    BrokerOrName,
    Expectation,
    Group,
    Happening,
    Name,
    Part,
    Producer,
    Seconds,
    Topic,
    View,
)

SCENARIOS = Path(__file__).with_name("scenarios")
POD_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class ScenarioError(ValueError):
    """A scenario is invalid. The message has one sentence for each fault, with field and value."""


class Rollout(Part):
    """A rollout: `pods` members of a group, replaced by new processes as Kubernetes deployments do.

    style   one_by_one  a pod every `apart` seconds
            quarters    a quarter of the pods every `apart` seconds
            surge       all new pods at once, then all old pods stop
    ids     stable      a pod keeps ClientId and address and is down for `down` seconds
            new         a process with a new ClientId starts `down` seconds before the old one stops
            groups      the same, and each process is the only member of its own group
    """

    consumer_group: Name
    subscriptions: tuple[Name, ...] = Field(min_length=1)
    pods: int = Field(ge=1, le=500)
    style: Literal["one_by_one", "quarters", "surge"] = "one_by_one"
    ids: Literal["stable", "new", "groups"] = "stable"
    at: Seconds
    apart: float = Field(default=5.0, gt=0)
    down: float = Field(default=10.0, gt=0)
    client_version: str = "5.3.3"

    @model_validator(mode="after")
    def _check(self) -> "Rollout":
        if self.style == "surge" and self.ids == "stable":
            raise ValueError("style = 'surge' with ids = 'stable' would be twins")
        return self

    def expand(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the groups and happenings that replace the rollout in a scenario."""
        old = [self._consumer(number, 0) for number in range(self.pods)]
        new = [] if self.ids == "stable" else [self._consumer(number, 1) for number in range(self.pods)]
        return self._groups(old, new), list(self._happenings(old, new))

    def _consumer(self, number: int, generation: int) -> dict[str, Any]:
        host = f"10.{30 + generation}.{number // 250}.{number % 250 + 1}"
        instance = self.consumer_group if self.ids == "stable" else f"{4000 + number}#{81_200_000_000 + generation}"
        return {
            "name": f"{self.consumer_group}-{number}-{generation}",
            "client_id": f"{host}@{instance}",
            "host": host,
            "client_version": self.client_version,
            "running": generation == 0,
        }

    def _groups(self, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
        group = {"consumer_group": self.consumer_group, "subscriptions": self.subscriptions}
        if self.ids != "groups":
            return [group | {"consumers": [*old, *new]}]
        return [
            group
            | {
                "consumer_group": f"{self.consumer_group}-{_pod_name(generation, number)}",
                "consumers": [consumer],
                "lives_with_its_members": True,
            }
            for generation, consumers in enumerate((old, new))
            for number, consumer in enumerate(consumers)
        ]

    def _happenings(self, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for number, turn in enumerate(self._turns()):
            steps = ("stop", old[number]), ("start", old[number])
            if self.ids != "stable":
                steps = ("start", new[number]), ("stop", old[number])
            at = self.at + turn * self.apart
            for (action, consumer), seconds in zip(steps, (at, at + self.down), strict=True):
                yield {"at": round(seconds, 3), "action": action, "consumer": consumer["name"]}

    def _turns(self) -> Iterator[int]:
        for number in range(self.pods):
            match self.style:
                case "one_by_one":
                    yield number
                case "quarters":
                    yield 4 * number // self.pods
                case _:
                    yield 0

    @property
    def seconds(self) -> float:
        """Duration of the rollout."""
        return max(self._turns()) * self.apart + self.down


def _pod_name(generation: int, number: int) -> str:
    """Return the template hash and five letters of a pod, as Kubernetes names the pods of a Deployment."""
    drawn = ""
    rest = 7_919 * (number + 1) + 104_729 * (generation + 1)
    for _ in range(5):
        rest, letter = divmod(rest * 31 + 17, len(POD_LETTERS))
        drawn += POD_LETTERS[letter]
    return f"{('6d8f9c7b54', '5b7c94d8f6')[generation]}-{drawn}"


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
        """The causes of its expected starved_queue findings, required or not."""
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
        expanded = scenario.model_dump(by_alias=True, exclude={"rollouts"})
        for rollout in scenario.rollouts:
            groups, happenings = rollout.expand()
            expanded["groups"] = [*expanded["groups"], *groups]
            expanded["happenings"] = [*expanded["happenings"], *happenings]
        return Scenario.model_validate(expanded)
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
