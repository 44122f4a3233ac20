"""What a verb may touch, and the verbs by name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tests.field.client import FieldClient
from tests.field.cluster import FieldCluster
from tests.field.links import Links


class Collector(Protocol):
    """The collector's process."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self, environment: Mapping[str, str]) -> None: ...


class Stage(Protocol):
    """What a trouble may touch."""

    @property
    def clients(self) -> Mapping[str, FieldClient]: ...
    @property
    def cluster(self) -> FieldCluster: ...
    @property
    def links(self) -> Links: ...
    @property
    def collector(self) -> Collector: ...
    @property
    def folder(self) -> Path: ...

    def link_name(self, client: str) -> str:
        """The client of its links."""
        ...


Verb = Callable[..., None]

VERBS: dict[str, Verb] = {}
"""By name. What follows `stage` in a verb's signature are its arguments in a scenario."""


def verb(do: Verb) -> Verb:
    """Known by its name from now on."""
    VERBS[do.__name__] = do
    return do
