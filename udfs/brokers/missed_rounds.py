"""Brokers that answer now and then: the share of the newest rounds that they missed.

An unbroken silence is not needed to be no use: who answers one round of ten is as good as gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

WINDOW_MS = 300_000
LEAST_ROUNDS, MOST_ROUNDS = 6, 60

TWICE = 2
"""A broker that was away once and came back is no seldom one."""

SELDOM_SHARE, END_SHARE = 0.55, 0.4
"""Who misses every other round is no seldom one, whichever way the window cuts it: its queues are judged still."""


@dataclass
class MissedRounds:
    """`missed` has a broker's newest rounds, a 1 for each it missed, the newest last; who missed none is not in it.

    `rounds` counts the rounds so far, up to MOST_ROUNDS. `seldom_ms` is since when a broker misses most of them.
    """

    rounds: int = 0
    missed: dict[str, str] = field(default_factory=dict)
    seldom_ms: dict[str, int] = field(default_factory=dict)

    def note(self, now_ms: int, asked: Iterable[str], without_data: Iterable[str], interval_ms: int) -> None:
        """One round of the cluster's."""
        span = WINDOW_MS // interval_ms if interval_ms else MOST_ROUNDS
        span = min(max(span, LEAST_ROUNDS), MOST_ROUNDS)
        missing, known = set(without_data), set(asked)
        before, self.rounds = self.rounds, min(self.rounds + 1, MOST_ROUNDS)
        for broker_name in missing - self.missed.keys():
            self.missed[broker_name] = "0" * before
        for broker_name, so_far in list(self.missed.items()):
            rounds = (so_far + ("1" if broker_name in missing else "0"))[-span:]
            if broker_name not in known or "1" not in rounds:
                del self.missed[broker_name]
            else:
                self.missed[broker_name] = rounds
        for broker_name, rounds in self.missed.items():
            if _is_seldom(rounds):
                first_ms = now_ms - (len(rounds) - 1 - rounds.index("1")) * interval_ms
                self.seldom_ms.setdefault(broker_name, first_ms)
        for broker_name in list(self.seldom_ms):
            if self.share(broker_name) < END_SHARE:
                del self.seldom_ms[broker_name]

    def share(self, broker_name: str) -> float:
        """Of its newest rounds, 0 to 1."""
        rounds = self.missed.get(broker_name, "")
        return round(rounds.count("1") / len(rounds), 2) if rounds else 0.0

    def drop(self, broker_name: str) -> None:
        self.missed.pop(broker_name, None)
        self.seldom_ms.pop(broker_name, None)


def _is_seldom(rounds: str) -> bool:
    """Well over half of them missed, and not all at one time."""
    is_most = rounds.count("1") > SELDOM_SHARE * len(rounds) + 0.5
    return len(rounds) >= LEAST_ROUNDS and is_most and f"0{rounds}".count("01") >= TWICE
