"""Roll-outs: `pods` members of a group replaced by as many new processes, in one of the ways deployments do it.

A `[[rollouts]]` of a scenario becomes consumers, groups and happenings before anything runs.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from streaming.simulator.parts import Name, Part, Seconds

SHARES_OF_QUARTERS = 4
POD_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Rollout(Part):
    """A deployment's pods, each a process of its own.

    style   one_by_one  a pod every `apart` seconds
            quarters    a quarter of the pods every `apart` seconds
            surge       all new pods at once, then all old ones go
    ids     stable      a pod keeps ClientId and address: it is gone for `down` seconds, and comes back
            new         another process with another ClientId comes `down` seconds before the old one goes
            groups      the same, and each process is the only member of a group of its own
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
        """(groups, happenings) as a scenario has them."""
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
        if self.ids != "groups":
            return [self._group(self.consumer_group, [*old, *new])]
        generations = enumerate((old, new))
        return [
            self._group(f"{self.consumer_group}-{_pod_name(generation, number)}", [one])
            | {"lives_with_its_members": True}
            for generation, ones in generations
            for number, one in enumerate(ones)
        ]

    def _group(self, consumer_group: str, consumers: list[dict[str, Any]]) -> dict[str, Any]:
        return {"consumer_group": consumer_group, "subscriptions": self.subscriptions, "consumers": consumers}

    def _happenings(self, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for number, turn in enumerate(self._turns()):
            at = self.at + turn * self.apart
            if self.ids == "stable":
                yield _at(at, "stop", old[number])
                yield _at(at + self.down, "start", old[number])
            else:
                yield _at(at, "start", new[number])
                yield _at(at + self.down, "stop", old[number])

    def _turns(self) -> Iterator[int]:
        for number in range(self.pods):
            match self.style:
                case "one_by_one":
                    yield number
                case "quarters":
                    yield SHARES_OF_QUARTERS * number // self.pods
                case _:
                    yield 0

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return max(self._turns()) * self.apart + self.down


def _pod_name(generation: int, number: int) -> str:
    """As Kubernetes names a Deployment's pods: the hash of their template, and five letters of each pod's own."""
    drawn = ""
    rest = 7_919 * (number + 1) + 104_729 * (generation + 1)
    for _ in range(5):
        rest, letter = divmod(rest * 31 + 17, len(POD_LETTERS))
        drawn += POD_LETTERS[letter]
    return f"{('6d8f9c7b54', '5b7c94d8f6')[generation]}-{drawn}"


def _at(at: float, action: str, consumer: dict[str, Any]) -> dict[str, Any]:
    return {"at": round(at, 3), "action": action, "consumer": consumer["name"]}


def roll_out(rollouts: Iterable[Rollout]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(groups, happenings) of them all."""
    groups: list[dict[str, Any]] = []
    happenings: list[dict[str, Any]] = []
    for rollout in rollouts:
        of_groups, of_happenings = rollout.expand()
        groups += of_groups
        happenings += of_happenings
    return groups, happenings
