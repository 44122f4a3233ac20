"""How a modelled cluster is watched: by whom, how often, how completely, by which clocks. What is true stays true.

Any scenario can be watched under any conditions. A value out of range raises ConditionsError with one sentence.
"""

from dataclasses import dataclass, fields
from typing import Literal, get_args

View = Literal["model", "agents", "collector"]
Role = Literal["broker", "client", "collector", "run"]
VIEWS: tuple[str, ...] = get_args(View)
ROLES: tuple[str, ...] = get_args(Role)
INTERVALS_MS = range(1_000, 600_001)
FARTHEST_SECONDS = 86_400


class ConditionsError(ValueError):
    """Conditions that nobody can watch under. The message is one sentence, with the option and its value."""


@dataclass(frozen=True, slots=True)
class Skew:
    """One machine's clock is `ahead_ms` ahead; below 0 it is behind. Which broker or client it is, the seed says."""

    role: Role
    ahead_ms: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """One way to watch a cluster. The defaults are the model's own: everything is told, at once, by true clocks.

    view            model      brokers tell every heartbeat and pull as it comes, and somebody keeps the time
                    agents     the same, and nobody keeps the time: `run` must
                    collector  rounds: what a collector reads of brokers, and of clients through brokers
    interval_ms     from tick to tick; None: the scenario's
    missed_rounds   collector: the share of rounds that one broker, by the seed, does not answer
    lost_answers    collector: the share of questions to a client that time out; it is then left in peace for a while
    mute_clients    collector: the share of consumers that never answer a question
    listed_only     collector: the share of clients whose heartbeats brokers do not tell; 1 is brokers before code 328
    skew            whose clock is wrong
    lag_ms          agents: from an event to Kafka
    is_plain        collector: one of a release that does not tell what it could not hear, and trusts others' clocks
    """

    view: View = "model"
    interval_ms: int | None = None
    missed_rounds: float = 0.0
    lost_answers: float = 0.0
    mute_clients: float = 0.0
    listed_only: float = 0.0
    skew: Skew | None = None
    lag_ms: int = 0
    is_plain: bool = False

    def __post_init__(self) -> None:
        if self.view not in VIEWS:
            raise ConditionsError(f"view {self.view!r} is not one of {', '.join(VIEWS)}")
        if self.interval_ms is not None and self.interval_ms not in INTERVALS_MS:
            raise ConditionsError(f"interval = {self.interval_ms / 1000:g} is not between 1 and 600 seconds")
        for name in ("missed_rounds", "lost_answers", "mute_clients", "listed_only"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise ConditionsError(f"{name} = {share:g} is not between 0 and 1")
            if share and self.view != "collector":
                raise ConditionsError(f"{name} needs view = 'collector'")
        if not 0 <= self.lag_ms <= 600_000:
            raise ConditionsError(f"lag = {self.lag_ms / 1000:g} is not between 0 and 600 seconds")
        if self.lag_ms and self.view != "agents":
            raise ConditionsError("lag needs view = 'agents'")
        if self.is_plain and self.view != "collector":
            raise ConditionsError("plain needs view = 'collector'")
        self._check_skew()

    def _check_skew(self) -> None:
        if self.skew is None:
            return
        if self.skew.role not in ROLES:
            raise ConditionsError(f"skew of {self.skew.role!r} is not of one of {', '.join(ROLES)}")
        of_view = {"collector": "collector", "run": "agents"}.get(self.skew.role)
        if of_view and self.view != of_view:
            raise ConditionsError(f"a skew of {self.skew.role!r} needs view = {of_view!r}")
        if abs(self.skew.ahead_ms) > FARTHEST_SECONDS * 1000:
            raise ConditionsError(f"skew = {self.skew.ahead_ms / 1000:g} is not within {FARTHEST_SECONDS} seconds")

    def ahead_ms(self, role: Role) -> int:
        """How far the skewed machine's clock is ahead, if it is of this role; else 0."""
        return self.skew.ahead_ms if self.skew is not None and self.skew.role == role else 0

    def labels(self) -> dict[str, str]:
        """What differs from the defaults, for people: dimension to value."""
        reported: dict[str, str] = {"view": self.view}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "view" and value != field.default:
                reported[field.name.removesuffix("_ms").removeprefix("is_")] = _describe(value)
        return reported

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.labels().items())


def parse_skew(text: str) -> Skew:
    """ "broker:-95": the broker's clock is 95 seconds behind. Raises ConditionsError."""
    role, _, seconds = text.partition(":")
    try:
        return Skew(role, round(float(seconds) * 1000))  # type: ignore[arg-type]  # Conditions checks the role
    except (ValueError, OverflowError):
        raise ConditionsError(f"skew {text!r}: give ROLE:SECONDS, like broker:-95") from None


def _describe(value: object) -> str:
    match value:
        case Skew(role, ahead_ms):
            return f"{role} {ahead_ms / 1000:+g} s"
        case bool():
            return "yes"
        case int():
            return f"{value / 1000:g} s"
        case float():
            return f"{value:.0%}"
    return str(value)
