"""A second group in each process of a scenario's group, as a service with two listeners has."""

from collections.abc import Iterator
from typing import Any

from streaming.simulator.scenario import Group, Scenario, parse_scenario
from tests.lab.score.expectations import expectations_of

SECOND_GROUP, SECOND_TOPIC = "second-service", "second-events"
NANO_LATER = 48_211_907
"""Nanoseconds between the construction of a process's first and second consumer."""
OF_PROCESSES = ("duplicate_client_id", "split_view", "frozen_client", "group_offline")
"""Causes of starvation that affect each group of a process."""
KINDS = (*OF_PROCESSES, "client_id_at_risk", "slave_read", "offset_regression")
"""Kinds of findings that each group of a process has, because a process or a broker causes them."""
QUEUE_KINDS = ("stalled_queue", "double_consumed_queue")


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
    fields = scenario.model_dump()
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
    expects = expectations_of(scenario)
    is_hit = any((expected.cause or expected.kind) in OF_PROCESSES for expected in expects)
    for expected in expects:
        is_of_queues = expected.cause in OF_PROCESSES or (is_hit and expected.kind in QUEUE_KINDS)
        if expected.consumer_group == first.consumer_group and (is_of_queues or expected.kind in KINDS):
            yield expected.model_dump(by_alias=True) | {
                "consumer_group": SECOND_GROUP,
                "topic": expected.topic and SECOND_TOPIC,
                "client_id": expected.client_id and second_client_id(expected.client_id),
                "required": expected.required and not is_of_queues,
            }
