"""Conditions drawn by a seed: who watches, how often, what is lost, whose clock is wrong, what goes on beside."""

from random import Random

from streaming.simulator.conditions import Conditions, Skew

VIEWS = ("collector", "collector", "model", "agents")
INTERVALS_S = {
    "collector": (5, 10, 10, 30, 60, 75, 180),
    "model": (5, 10, 10, 30, 60, 75, 180),
    "agents": (5, 5, 10),
}
ROLES = {"collector": ("broker", "client", "collector"), "model": ("broker", "client"), "agents": ("broker", "run")}
SKEWS_S = (-3600, -150, -95, -45, -20, -5, 5, 20, 45, 95, 150, 3600)
LAGS_S = (0, 0, 5, 20, 45, 90, 150)
MISSED = (0.1, 0.25, 0.4, 0.8)
LISTED_ONLY = (0.5, 1.0)
TROUBLES = ("hung", "suspended", "slow")
PODS = (20, 20, 40, 40, 80, 200)
WAYS = (
    "one_by_one stable",
    "one_by_one stable",
    "one_by_one new",
    "quarters stable",
    "quarters new",
    "surge new",
    "one_by_one groups",
)
SHARE = 0.25
"""Of the runs that have any one of what can go wrong."""


def draw(seed: str, *, most_pods: int = 200) -> tuple[Conditions, str]:
    """(conditions, what goes on beside); the same for the same seed."""
    random = Random(f"draw {seed}")  # the same each time
    view = random.choice(VIEWS)
    interval_ms = random.choice(INTERVALS_S[view]) * 1000
    lag_ms = random.choice(LAGS_S) * 1000 if view == "agents" else 0
    skew = None
    role, ahead_ms = random.choice(ROLES[view]), random.choice(SKEWS_S) * 1000
    if random.random() < SHARE:
        skew = Skew(role, ahead_ms)  # type: ignore[arg-type]  # one of the roles
    beside = _beside(random, most_pods)
    shares = {
        name: random.choice(values) if random.random() < SHARE else 0.0
        for name, values in (
            ("missed_rounds", MISSED),
            ("lost_answers", (0.05,)),
            ("mute_clients", (0.3,)),
            ("listed_only", LISTED_ONLY),
        )
    }
    if view != "collector":
        return Conditions(view, interval_ms, skew=skew, lag_ms=lag_ms), beside  # type: ignore[arg-type]  # a view
    return Conditions("collector", interval_ms, skew=skew, **shares), beside


def has_second_group(seed: str) -> bool:
    """Whether the processes of a play carry a second consumer group: half of the plays, the same for the same seed."""
    return Random(f"second group {seed}").random() < 0.5


def _beside(random: Random, most_pods: int) -> str:
    trouble = random.choice(TROUBLES)
    pods = min(random.choice(PODS), most_pods)
    way = random.choice(WAYS)
    die = random.random()
    if die < SHARE:
        return trouble
    return f"rollout {pods} {way}" if die < 2 * SHARE else ""
