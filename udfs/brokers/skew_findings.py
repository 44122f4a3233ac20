"""Clocks out of step: no verdict rests on them, yet the times in the logs that people compare are off by as much."""

from collections.abc import Iterable, Iterator, Mapping

from udfs.alerts.alert import Finding, Text, Transition
from udfs.alerts.life import Evaluation, step
from udfs.alerts.prose import clock, join_words
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_state import ClusterState

CLOCK_SKEW = "clock_skew"
CLOCK_AHEAD, CLOCK_OUT_OF_STEP = "clock_ahead", "clock_out_of_step"

AHEAD_OVER_MS = 120_000
"""A clock that sent nothing from the future for so long has been set right."""

NAMED = 5


def step_skew(cluster_state: ClusterState, cluster: str, now_ms: int, rules: Rules) -> Iterator[Transition]:
    """Judge the clocks as of now."""
    findings = dict(find_skew(cluster_state, cluster, now_ms))
    yield from step(
        cluster_state.incidents, cluster_state.windows, CLOCK_SKEW, findings, lambda _: Evaluation(now_ms), rules
    )


def find_skew(cluster_state: ClusterState, cluster: str, now_ms: int) -> Iterator[tuple[str, Finding]]:
    """Kind 19. A clock is out of step when it is more than 10 s off Kafka's, and stays so; one finding a role.

    One that is more than a minute ahead tells a time that is not taken, so it moves nothing. Not out of step: a source
    whose messages come as late as its rounds are apart.
    """
    over_ms = max(AHEAD_OVER_MS, 3 * cluster_state.interval_ms)
    cluster_state.ahead = {name: seen for name, seen in cluster_state.ahead.items() if now_ms < seen[0] + over_ms}
    ahead = {name: ahead_ms for name, (_, ahead_ms) in sorted(cluster_state.ahead.items())}
    if ahead:
        yield _finding(cluster_state, cluster, "clock", CLOCK_AHEAD, ahead, now_ms)
    own_clocks = frozenset(name for name, source in cluster_state.rounds.sources.items() if source.is_own)
    out_of_step = cluster_state.skew.out_of_step(cluster_state.interval_ms, own_clocks, ahead.values())
    found = {role: dict(machines) for role, machines in out_of_step.items()}
    for skew in cluster_state.rounds.skews(now_ms):
        if skew.machine not in found.get("collector", {}):
            found.setdefault(skew.role, {}).setdefault(skew.machine, skew.ahead_ms)
    for role, machines in sorted(found.items()):
        yield _finding(cluster_state, cluster, role, CLOCK_OUT_OF_STEP, machines, now_ms)


def _finding(
    cluster_state: ClusterState, cluster: str, role: str, cause: str, machines: Mapping[str, int], now_ms: int
) -> tuple[str, Finding]:
    key = f"{CLOCK_SKEW} {role}"
    known = cluster_state.incidents.get(key)
    since_ms = known.started_at_ms if known else now_ms
    names = sorted(machines)
    return key, Finding(
        kind=CLOCK_SKEW,
        cause=cause,
        severity="warning",
        since_ms=since_ms,
        text=_describe(cluster, role, cause, machines, since_ms),
        labels={"cluster": cluster, "role": role},
        broker_name=",".join(names) if role == "broker" and len(names) <= NAMED else None,
        client_id=names[0] if role == "client" and len(names) == 1 else None,
        evidence={"role": role, "ahead_ms": dict(sorted(machines.items()))},
    )


def _describe(cluster: str, role: str, cause: str, machines: Mapping[str, int], since_ms: int) -> Text:
    worst = sorted(machines, key=lambda name: (-abs(machines[name]), name))
    off = join_words([f"{name} by {_seconds(machines[name])}" for name in worst[:NAMED]])
    more = f" and {len(worst) - NAMED} more" if len(worst) > NAMED else ""
    advice = (
        f"Correct the clock of {join_words(_names(worst))} (chrony or ntpd), or find out why its messages arrive late."
    )
    if cause == CLOCK_AHEAD:
        return Text(
            f"Clock events of cluster {cluster} have been ahead of Kafka's time since {clock(since_ms)}: {off}{more}. "
            "They are quarantined, and no group is evaluated at them.",
            advice,
        )
    what = {"broker": "brokers", "client": "clients", "collector": "collectors"}.get(role, role)
    return Text(
        f"Clocks of {what} of cluster {cluster} have differed from Kafka's since {clock(since_ms)}: {off}{more}. "
        "Findings use Kafka's time and stay correct; the times in the logs of these machines are wrong.",
        advice,
    )


def _names(worst: Iterable[str]) -> list[str]:
    return list(worst)[:NAMED]


def _seconds(ahead_ms: int) -> str:
    return f"{round(abs(ahead_ms) / 1000)} s {'ahead' if ahead_ms > 0 else 'behind'}"
