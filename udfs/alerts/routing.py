"""Which receivers an alert goes to, and by which route. The order of the routes decides.

Rule 1. The first route that matches takes it; the next ones are asked only where that route says `continue`.
Rule 2. An `info` alert is taken only by a route that names its severity or its kind: a catch-all does not page for it.
Rule 3. An `info` alert that no route takes goes to the quiet receivers, the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from udfs.alerts.pattern import Labels, Matchers, is_match

WATCHDOG = "watchdog"
QUIET = "info is only logged"
"""What stands for a route where rule 3 applies."""


@dataclass(frozen=True)
class Route:
    """Alerts that match go to these receivers, by name."""

    name: str
    receivers: tuple[str, ...]
    match: Matchers = field(default_factory=dict)
    is_continued: bool = False

    def takes(self, labels: Labels) -> bool:
        is_asked_for = labels.get("severity") != "info" or "severity" in self.match or "kind" in self.match
        return is_asked_for and is_match(self.match, labels)


def pick_receivers(routes: Sequence[Route], labels: Labels, quiet: Sequence[str] = ()) -> dict[str, str]:
    """Receiver to the name of the route that it is reported by; a receiver of two routes is notified once, by the
    first.
    """
    picked: dict[str, str] = {}
    for route in routes:
        if route.takes(labels):
            picked |= {receiver: route.name for receiver in route.receivers if receiver not in picked}
            if not route.is_continued:
                break
    if not picked and labels.get("severity") == "info":
        return dict.fromkeys(quiet, QUIET)
    return picked


def pick_watchdog_receivers(routes: Sequence[Route]) -> Mapping[str, str]:
    """Who gets the watchdog: only receivers of routes that name its kind, for it comes every minute."""
    labels = {"kind": WATCHDOG, "severity": "info", "cluster": "balancewatch"}
    return pick_receivers([route for route in routes if "kind" in route.match], labels)
