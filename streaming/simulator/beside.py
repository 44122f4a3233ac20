"""What goes on beside a scenario, in any of them: another group, with a topic and a producer of its own.

hung        one of four members' listener hangs for good
suspended   one of four members is suspended for minutes
slow        four members' listeners are slow: their caches are full, they hardly pull, and consume all the time
rollout     a deployment of some size is replaced, in a way of `Rollout`
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streaming.simulator.conditions import ConditionsError
from streaming.simulator.rollouts import Rollout
from streaming.simulator.scenario import Scenario, parse_scenario

GROUP, TOPIC = "beside-service", "beside-events"
MEMBERS = 4
TROUBLES = ("hung", "suspended", "slow")
ROLLOUT = re.compile(r"rollout (?P<pods>\d{1,3}) (?P<style>one_by_one|quarters|surge) (?P<ids>stable|new|groups)")
EXAMPLE = "rollout 40 one_by_one stable"
TROUBLE_SECONDS = 780.0
SPARE_SECONDS = 240.0
"""How long a run goes on after what happens beside it, so that what it leaves behind shows."""
MOST_QUEUES = 64
"""Of the topic on each broker."""
OF_BROKERS = ("slave_read", "order_at_risk", "offset_regression")
"""Kinds of a group that come of its brokers."""


@dataclass(frozen=True)
class _Beside:
    """What is added, and how long the run must be for it."""

    parts: dict[str, list[Any]]
    queues: int
    sends_per_second: float
    seconds: float
    is_healthy: bool


def with_beside(scenario: Scenario, beside: str) -> Scenario:
    """The scenario with another group. Raises ConditionsError for a word that is none of those above."""
    match = ROLLOUT.fullmatch(beside)
    if match is not None:
        added = _rollout(match, len(scenario.brokers))
    elif beside in TROUBLES:
        added = _troubled(beside, len(scenario.brokers))
    else:
        raise ConditionsError(f"beside {beside!r}: give {', '.join(TROUBLES)} or, for example, {EXAMPLE!r}")
    fields = scenario.model_dump(by_alias=True)
    for name, parts in added.parts.items():
        fields[name] = [*fields[name], *parts]
    fields["topics"] = [*fields["topics"], {"topic": TOPIC, "queue_nums": added.queues}]
    fields["producers"] = [*fields["producers"], _producer(added.sends_per_second)]
    fields["expects"] = [*fields["expects"], *_for_others(fields["expects"])]
    fields["healthy"] = scenario.healthy and added.is_healthy
    if scenario.duration_seconds is not None:
        fields["duration_seconds"] = max(scenario.duration_seconds, added.seconds)
    return parse_scenario(fields)


def _for_others(expects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What brokers do to the scenario's group they may do to the one beside it."""
    anybody = {"consumer_group": None, "topic": None, "required": False}
    return [expected | anybody for expected in expects if expected["kind"] in OF_BROKERS]


def _troubled(beside: str, brokers: int) -> _Beside:
    names = [f"beside-{number}" for number in range(MEMBERS)]
    consumers = [
        {"name": name, "client_id": f"10.40.0.{number + 1}@{6000 + number}#812033441", "host": f"10.40.0.{number + 1}"}
        for number, name in enumerate(names)
    ]
    happenings: list[dict[str, Any]]
    match beside:
        case "hung":
            happenings = [{"at": 120, "action": "hang_listener", "consumer": names[0]}]
        case "suspended":
            happenings = [{"at": 120, "until": 540, "action": "suspend", "consumer": names[0]}]
        case _:
            happenings = [
                {"at": 30, "action": "slow_listener", "consume_ms": 5_000, "consumer": name} for name in names
            ]
    group = {"consumer_group": GROUP, "subscriptions": [TOPIC], "consumers": consumers}
    is_slow = beside == "slow"  # few queues, soon full
    queues = 1 if is_slow else -(-2 * MEMBERS // brokers)
    parts = {"groups": [group], "happenings": happenings}
    return _Beside(parts, queues, 5.0 * brokers if is_slow else 8.0, TROUBLE_SECONDS, is_healthy=is_slow)


def _rollout(match: re.Match[str], brokers: int) -> _Beside:
    pods = int(match["pods"])
    try:
        rollout = Rollout.model_validate(
            {
                "consumer_group": GROUP,
                "subscriptions": [TOPIC],
                "pods": pods,
                "style": match["style"],
                "ids": match["ids"],
                "at": 120,
                "apart": 30.7 if match["style"] == "quarters" else 5.3,
                "down": 10.7,
            }
        )
    except ValueError:
        raise ConditionsError(f"beside {match[0]!r}: 1 to 500 pods, and no surge of stable ids") from None
    queues = 2 if match["ids"] == "groups" else min(MOST_QUEUES, -(-pods * 4 // (3 * brokers)))
    seconds = rollout.at + rollout.seconds + SPARE_SECONDS
    return _Beside({"rollouts": [rollout]}, queues, 2.0, seconds, is_healthy=True)


def _producer(sends_per_second: float) -> dict[str, Any]:
    return {
        "client_id": "10.40.1.1@3011#81203340000112",
        "host": "10.40.1.1",
        "producer_group": "beside-producer",
        "topics": [TOPIC],
        "sends_per_second": sends_per_second,
    }
