"""Who watches the modelled cluster, as the scenario's happenings change it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Watchers:
    """`collector` is the name in the rounds' clock events. With agents, each heartbeat and pull is told besides."""

    collector: str | None = None
    has_agents: bool = False
