"""A scenario as data: one TOML file, checked before anything starts.

Times are seconds from when every client has started. Names of topics and groups are the scenario's own; a play gives
them a suffix, so that several plays use one cluster side by side.
"""

import random
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from streaming.simulator.scenario import Name, Part, Seconds
from tests.lab.field.client_spec import ClientSpec
from tests.lab.score.expectations import Expectation

SCENARIOS = Path(__file__).with_name("scenarios")
SHORT = "short"
"""The one that `make test` plays, beside the others' folder: several troubles at once."""

NAMED = frozenset({"topic", "topics", "group", "consumer_group"})
"""Arguments of troubles that name what a play gives a suffix."""


class ScenarioError(ValueError):
    """A scenario cannot be played. The message names the file, the field and its value."""


class Topic(Part):
    """`queues` is both queue numbers, on each of `brokers` (None: every master)."""

    topic: Name
    queues: int = Field(default=4, ge=1)
    perm: int = Field(default=6, ge=0, le=7, description="4 read, 2 write")
    brokers: tuple[Name, ...] | None = None


class Group(Part):
    """A group that is created before its clients start; another is created by its first heartbeat."""

    group: Name
    is_pop: bool = Field(default=False, description="the message request mode of its topics is POP")


class Trouble(BaseModel):
    """What is done, when, and the verb's own arguments (`troubles.py`)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    at: Seconds
    do: Name

    def arguments(self, suffix: str) -> dict[str, Any]:
        """Topics and groups by their names on the cluster."""
        return {
            key: _suffixed(value, suffix) if key in NAMED else value for key, value in (self.model_extra or {}).items()
        }


class Expects(Expectation):
    """As the simulator's, and `ends_with`: the reason of its RESOLVED row, where the end is what is tried.

    `client` is the name of the client that is told of. `is_held`, of a starved queue: whether a living client has it in
    its table meanwhile; None where either will do.
    """

    client: Name | None = None
    is_held: bool | None = None
    ends_with: str | None = None


class Scenario(Part):
    """Who uses the cluster, what is done to whom, and what must and may be said of it; nothing else may be.

    `alone`: it hurts brokers, NameServers or our own services, so nothing is played beside it. `is_quiet`: nothing of
    it may page.
    """

    about: Annotated[str, Field(min_length=1)]
    alone: bool = False
    is_quiet: bool = False
    seconds: float = Field(gt=0)
    jitter: float = Field(default=15, ge=0, description="seconds at most by which a seed shifts all troubles alike")
    topics: tuple[Topic, ...] = Field(min_length=1)
    groups: tuple[Group, ...] = ()
    clients: tuple[ClientSpec, ...] = Field(min_length=1)
    troubles: tuple[Trouble, ...] = ()
    expects: tuple[Expects, ...] = ()
    asks_others_at: Seconds | None = Field(default=None, description="when mqadmin is asked; None: not at all")

    @model_validator(mode="after")
    def _check(self) -> "Scenario":
        topics = {topic.topic for topic in self.topics}
        names = {client.name for client in self.clients}
        groups = self.group_names
        if len(names) < len(self.clients):
            raise ValueError("two clients have one name")
        for client in self.clients:
            _check_known(f"client {client.name}: topics", client.topics, topics)
        for trouble in self.troubles:
            if trouble.at + self.jitter > self.seconds:
                raise ValueError(f"trouble {trouble.do} at {trouble.at:g} is after the end, {self.seconds:g}")
        for expected in self.expects:
            where = f"expected {expected.kind}"
            _check_known(f"{where}: topic", [expected.topic], {None, *topics})
            _check_known(f"{where}: consumer_group", [expected.consumer_group], {None, *groups})
            _check_known(f"{where}: client", [expected.client], {None, *names})
        if self.is_quiet and any(expected.required for expected in self.expects):
            raise ValueError("is_quiet, and yet a finding is required")
        return self

    @property
    def group_names(self) -> frozenset[str]:
        """Consumer groups, by their own names."""
        return frozenset(client.group for client in self.clients if not client.is_producer)

    @property
    def processes(self) -> int:
        """JVMs at the most."""
        return len({client.process or f"client {client.name}" for client in self.clients})

    @property
    def has_grpc(self) -> bool:
        """Whether it needs a proxy."""
        return any(client.is_grpc for client in self.clients)

    def shift(self, seed: int) -> float:
        """Seconds by which every time of the file is later in a play of this seed; 0 for seed 0."""
        return random.Random(f"{self.about} {seed}").uniform(0, self.jitter) if seed else 0.0


def scenario_names() -> list[str]:
    """Every scenario of the field."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


@cache
def load_scenario(name: str) -> Scenario:
    """A scenario by its name. Raises ScenarioError."""
    path = (SCENARIOS.parent if name == SHORT else SCENARIOS) / f"{name}.toml"
    if not path.is_file():
        raise ScenarioError(f"scenario {name!r} is not one of {', '.join(scenario_names())}")
    try:
        return Scenario.model_validate(tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, ValidationError, TypeError, KeyError) as error:
        raise ScenarioError(f"{path.name}: {error}") from None


def _suffixed(value: Any, suffix: str) -> Any:
    return [one + suffix for one in value] if isinstance(value, list) else value + suffix


def _check_known(what: str, names: Iterable[str | None], known: Iterable[str | None]) -> None:
    choice = set(known)
    for name in names:
        if name not in choice:
            raise ValueError(f"{what} {name!r} is not one of {', '.join(sorted(one for one in choice if one))}")
