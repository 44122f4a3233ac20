"""A scenario as data: one TOML file, checked before anything runs.

Times in a file are seconds of virtual time from the start. Field names are RocketMQ's; a consumer has a `name` of
its own besides, because two of them may carry one client_id.
"""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

SCENARIOS = Path(__file__).with_name("scenarios")

Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(ge=0)]


class ScenarioError(ValueError):
    """A scenario cannot be played. The message is one sentence a fault, naming the field and its value."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Topic(_Part):
    topic: Name
    queue_nums: int = Field(ge=1, description="readable and writable queues on each broker")


class Consumer(_Part):
    name: Name
    client_id: Name
    host: Name = Field(description="the address brokers see; behind NAT it is not the one in client_id")
    language: str = "JAVA"
    client_version: str = "5.3.3"
    strategy: Literal["AVG", "AVG_BY_CIRCLE"] | None = Field(default=None, description="None: the group's")
    subscriptions: tuple[Name, ...] | None = Field(default=None, description="topics; None: the group's")
    running: bool = Field(default=True, description="runs from the start; else a happening starts it")


class Group(_Part):
    consumer_group: Name
    subscriptions: tuple[Name, ...] = Field(min_length=1)
    strategy: Literal["AVG", "AVG_BY_CIRCLE"] = "AVG"
    pull_interval_ms: int = Field(default=0, ge=0, description="DefaultMQPushConsumer.pullInterval")
    consumers: tuple[Consumer, ...] = Field(min_length=1)


class Producer(_Part):
    client_id: Name
    host: Name
    producer_group: Name = "producers"
    language: str = "JAVA"
    client_version: str = "5.3.3"
    topics: tuple[Name, ...] = Field(min_length=1)
    sends_per_second: float = Field(default=2.0, gt=0, le=1000)


Action = Literal["start", "stop", "kill", "freeze", "thaw", "reconnect", "slow_broker", "fail_broker", "scale_topic"]

_NEEDS: dict[str, tuple[str, ...]] = {
    "slow_broker": ("broker_name", "until", "latency_ms"),
    "fail_broker": ("broker_name", "until"),
    "scale_topic": ("topic", "queue_nums"),
}


class Happening(_Part):
    """What is done to the cluster, `at` a time and again `every` so often.

    start, stop         a consumer process comes up; shuts down cleanly and leaves at once
    kill                its host is lost: nobody closes the channel, brokers expire it after 120 s
    freeze, thaw        SIGSTOP and SIGCONT: it keeps channel and queues and says nothing
    reconnect           its channels are replaced by new ones; the old ones fall silent and are not closed
    slow_broker         sends to a broker take `latency_ms` more, until `until`
    fail_broker         sends to a broker end in `error`, until `until`
    scale_topic         the topic has `queue_nums` queues on each broker from now on
    """

    at: Seconds
    every: float | None = Field(default=None, gt=0)
    action: Action
    consumer: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    until: Seconds | None = None
    latency_ms: int | None = Field(default=None, ge=0)
    error: Literal["RemotingException", "MQBrokerException"] = "RemotingException"
    queue_nums: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> "Happening":
        for field in _NEEDS.get(self.action, ("consumer",)):
            if getattr(self, field) is None:
                raise ValueError(f"action {self.action!r} needs {field}")
        if self.until is not None and self.until <= self.at:
            raise ValueError(f"until = {self.until:g} is not after at = {self.at:g}")
        if self.every is not None and self.until is not None and self.until - self.at >= self.every:
            raise ValueError(f"every = {self.every:g} begins again before until = {self.until:g}")
        return self


class Scenario(_Part):
    """A cluster, who uses it, and what happens to it. Without `duration_seconds` it goes on for ever."""

    description: str = ""
    cluster: Name
    duration_seconds: float | None = Field(default=None, gt=0)
    clock_interval_ms: int = Field(default=5000, ge=1)
    brokers: tuple[Name, ...] = Field(min_length=1)
    topics: tuple[Topic, ...] = Field(min_length=1)
    groups: tuple[Group, ...] = ()
    producers: tuple[Producer, ...] = ()
    happenings: tuple[Happening, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> "Scenario":
        topics = {topic.topic for topic in self.topics}
        consumers = [consumer.name for group in self.groups for consumer in group.consumers]
        _check_unique("brokers", self.brokers)
        _check_unique("topics", [topic.topic for topic in self.topics])
        _check_unique("groups", [group.consumer_group for group in self.groups])
        _check_unique("consumers", consumers)
        for group in self.groups:
            _check_known(f"group {group.consumer_group!r}: topic", group.subscriptions, topics)
            for consumer in group.consumers:
                _check_known(f"consumer {consumer.name!r}: topic", consumer.subscriptions or (), topics)
        for producer in self.producers:
            _check_known(f"producer {producer.client_id!r}: topic", producer.topics, topics)
        for happening in self.happenings:
            where = f"action {happening.action!r} at {happening.at:g}"
            _check_known(f"{where}: consumer", [happening.consumer], [None, *consumers])
            _check_known(f"{where}: broker_name", [happening.broker_name], [None, *self.brokers])
            _check_known(f"{where}: topic", [happening.topic], [None, *topics])
        return self


def _check_unique(what: str, names: Any) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{what} has {twice[0]!r} twice")


def _check_known(what: str, names: Any, known: Any) -> None:
    for name in names:
        if name not in known:
            choice = ", ".join(sorted(item for item in known if item is not None))
            raise ValueError(f"{what} {name!r} is not one of {choice or 'none'}")


def scenario_names() -> list[str]:
    """The scenarios that come with the package."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """A scenario by its name, or from a TOML file. Raises ScenarioError."""
    path = Path(name_or_path)
    if str(name_or_path) in scenario_names():
        path = SCENARIOS / f"{name_or_path}.toml"
    elif not path.is_file():
        choice = ", ".join(scenario_names())
        raise ScenarioError(f"scenario {str(name_or_path)!r} is not a file and not one of {choice}")
    try:
        return parse_scenario(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(f"scenario {str(name_or_path)!r} cannot be read: {error}") from None


def parse_scenario(fields: dict[str, Any]) -> Scenario:
    """A scenario from what a TOML file says. Raises ScenarioError."""
    try:
        return Scenario.model_validate(fields)
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
