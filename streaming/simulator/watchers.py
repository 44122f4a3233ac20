"""Watchers of the modelled cluster, as a scenario's happenings change them."""

from dataclasses import dataclass


@dataclass(slots=True)
class Watchers:
    """`collector` is the name in clock events. Agents report each heartbeat and pull in addition to the rounds."""

    collector: str | None = None
    has_agents: bool = False
