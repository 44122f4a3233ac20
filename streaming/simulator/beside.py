"""Extra groups for any scenario.

`with_beside` adds an independent group with its own topic and producer:

    hung        the listener of one of four members hangs permanently
    suspended   one of four members is suspended for minutes
    slow        the listeners of four members are slow: their caches are full, they rarely pull, but consume
    rollout     a deployment of a given size is replaced (`Rollout`)

`with_second_group` adds a second group to each process of a group, as a service with two listeners has.
"""

import re
from collections.abc import Iterator
from typing import Any

from streaming.simulator.conditions import ConditionsError
from streaming.simulator.scenario import Group, Rollout, Scenario, parse_scenario

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

SECOND_GROUP, SECOND_TOPIC = "second-service", "second-events"
NANO_LATER = 48_211_907
"""Nanoseconds between the construction of a process's first and second consumer."""
OF_PROCESSES = ("duplicate_client_id", "split_view", "frozen_client", "group_offline")
"""Causes of starvation that affect each group of a process."""
KINDS = (*OF_PROCESSES, "client_id_at_risk", "slave_read", "offset_regression")
"""Kinds of findings that each group of a process has, because a process or a broker causes them."""
QUEUE_KINDS = ("stalled_queue", "double_consumed_queue")


def with_beside(scenario: Scenario, beside: str) -> Scenario:
    """Return the scenario with another group. Raises ConditionsError for an unknown `beside`."""
    brokers = len(scenario.brokers)
    seconds = TROUBLE_SECONDS
    fields = scenario.model_dump(by_alias=True)
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
    of_brokers = [expected | any_group for expected in fields["expects"] if expected["kind"] in OF_BROKERS]
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


def with_second_group(scenario: Scenario) -> Scenario:
    """Return the scenario with a second group in each process of its first group whose members rebalance.

    The second group has its own topic and producer. Happenings of a process, a broker or the network affect it too;
    happenings of a group, a topic or one consumer do not. Return the scenario unchanged without such a group, and
    where the group lives with its members: the second group would be missed when they leave.
    """
    first = next((group for group in scenario.groups if _rebalances(group)), None)
    if first is None or first.lives_with_its_members:
        return scenario
    like = next(topic for topic in scenario.topics if topic.topic == first.subscriptions[0])
    fields = scenario.model_dump(by_alias=True)
    kept = {"host", "language", "client_version", "never_answers", "use_heartbeat_v2", "running"}
    consumers = [
        consumer.model_dump(include=kept)
        | {
            "name": f"second-{consumer.name}",
            "client_id": second_client_id(consumer.client_id),
            "process": consumer.process or consumer.name,
        }
        for consumer in first.consumers
    ]
    added: dict[str, list[dict[str, Any]]] = {
        "topics": [{"topic": SECOND_TOPIC, "queue_nums": like.queue_nums, "broker_names": like.broker_names}],
        "groups": [{"consumer_group": SECOND_GROUP, "subscriptions": [SECOND_TOPIC], "consumers": consumers}],
        "producers": [{"client_id": "10.20.2.1@3017#81203340000871", "host": "10.20.2.1", "topics": [SECOND_TOPIC]}],
        "expects": [*_expects(scenario, first)],
    }
    return parse_scenario(fields | {name: [*fields[name], *parts] for name, parts in added.items()})


def _rebalances(group: Group) -> bool:
    is_push = group.message_model == "CLUSTERING" and group.client_rebalance and not group.pull_consumers
    return is_push and bool(group.subscriptions) and not any(consumer.assigned_queues for consumer in group.consumers)


def second_client_id(client_id: str) -> str:
    """Return the ClientId of a process's second consumer: from 4.9.0 its nanoTime differs."""
    stem, hash_sign, nano = client_id.partition("#")
    return f"{stem}#{int(nano) + NANO_LATER}" if hash_sign else client_id


def _expects(scenario: Scenario, first: Group) -> Iterator[dict[str, Any]]:
    """Yield the first group's expectations that hold for the second; those of queues are optional."""
    is_hit = any((expected.cause or expected.kind) in OF_PROCESSES for expected in scenario.expects)
    for expected in scenario.expects:
        is_of_queues = expected.cause in OF_PROCESSES or (is_hit and expected.kind in QUEUE_KINDS)
        if expected.consumer_group == first.consumer_group and (is_of_queues or expected.kind in KINDS):
            yield expected.model_dump(by_alias=True) | {
                "consumer_group": SECOND_GROUP,
                "topic": expected.topic and SECOND_TOPIC,
                "client_id": expected.client_id and second_client_id(expected.client_id),
                "required": expected.required and not is_of_queues,
            }
