"""An extra group for any scenario, with its own topic and producer.

What happens to it:

    hung        the listener of one of four members hangs permanently
    suspended   one of four members is suspended for minutes
    slow        the listeners of four members are slow: their caches are full, they rarely pull, but consume
    rollout     a deployment of a given size is replaced (`Rollout`)
"""

import re

from streaming.simulator.conditions import ConditionsError
from streaming.simulator.scenario import Rollout, Scenario, parse_scenario

GROUP, TOPIC = "beside-service", "beside-events"
MEMBERS = 4
TROUBLES = ("hung", "suspended", "slow")
ROLLOUT = re.compile(r"rollout (?P<pods>\d{1,3}) (?P<style>one_by_one|quarters|surge) (?P<ids>stable|new|groups)")
EXAMPLE = "rollout 40 one_by_one stable"
TROUBLE_SECONDS = 780.0
SPARE_SECONDS = 240.0
"""Duration of a run after its last happening, long enough for the effects to show."""
MOST_QUEUES = 64
"""Most queues of the topic on each broker."""
OF_BROKERS = ("slave_read", "order_at_risk", "offset_regression")
"""Kinds of a group's findings that its brokers cause."""


def with_beside(scenario: Scenario, beside: str) -> Scenario:
    """Return the scenario with another group. Raises ConditionsError for an unknown `beside`."""
    brokers = len(scenario.brokers)
    seconds = TROUBLE_SECONDS
    fields = scenario.model_dump()
    if match := ROLLOUT.fullmatch(beside):
        rollout = _rollout(match)
        fields["rollouts"] = [*fields["rollouts"], rollout]
        queues = 2 if rollout.ids == "groups" else min(MOST_QUEUES, -(-rollout.pods * 4 // (3 * brokers)))
        sends_per_second, seconds = 2.0, rollout.at + rollout.seconds + SPARE_SECONDS
    elif beside in TROUBLES:
        names = [f"beside-{number}" for number in range(MEMBERS)]
        hosts = [f"10.40.0.{number + 1}" for number in range(MEMBERS)]
        consumers = [
            {"name": name, "client_id": f"{host}@{6000 + number}#812033441", "host": host}
            for number, (name, host) in enumerate(zip(names, hosts, strict=True))
        ]
        happenings = {
            "hung": [{"at": 120, "action": "hang_listener", "consumer": names[0]}],
            "suspended": [{"at": 120, "until": 540, "action": "suspend", "consumer": names[0]}],
            "slow": [{"at": 30, "action": "slow_listener", "consume_ms": 5_000, "consumer": name} for name in names],
        }
        fields["groups"] = [
            *fields["groups"],
            {"consumer_group": GROUP, "subscriptions": [TOPIC], "consumers": consumers},
        ]
        fields["happenings"] = [*fields["happenings"], *happenings[beside]]
        queues, sends_per_second = -(-2 * MEMBERS // brokers), 8.0
        if beside == "slow":  # few queues, soon full
            queues, sends_per_second = 1, 5.0 * brokers
    else:
        raise ConditionsError(f"beside {beside!r}: give {', '.join(TROUBLES)} or, for example, {EXAMPLE!r}")
    fields["topics"] = [*fields["topics"], {"topic": TOPIC, "queue_nums": queues}]
    producer = {
        "client_id": "10.40.1.1@3011#81203340000112",
        "host": "10.40.1.1",
        "producer_group": "beside-producer",
        "topics": [TOPIC],
        "sends_per_second": sends_per_second,
    }
    fields["producers"] = [*fields["producers"], producer]
    any_group = {"consumer_group": None, "topic": None, "required": False}
    of_brokers = [expected | any_group for expected in fields["expects"] if expected.get("kind") in OF_BROKERS]
    fields["expects"] = [*fields["expects"], *of_brokers]  # a broker may do the same to the added group
    fields["healthy"] = scenario.healthy and beside not in ("hung", "suspended")
    if scenario.duration_seconds is not None:
        fields["duration_seconds"] = max(scenario.duration_seconds, seconds)
    return parse_scenario(fields)


def _rollout(match: re.Match[str]) -> Rollout:
    times = {"at": 120, "apart": 30.7 if match["style"] == "quarters" else 5.3, "down": 10.7}
    try:
        return Rollout.model_validate({"consumer_group": GROUP, "subscriptions": [TOPIC], **match.groupdict(), **times})
    except ValueError:
        raise ConditionsError(f"beside {match[0]!r}: 1 to 500 pods, and no surge of stable ids") from None
