"""What one look at a group costs, counted in questions: topics and members are added up, never multiplied."""

from dataclasses import replace

import pytest

from tests.udfs.groups.facts import RULES, Heartbeat, Pull, at, route, subscribes
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.group import tick
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import Member

BROKERS = ("broker-a", "broker-b")


def questions_of_a_look(topics: int, members: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often members are asked whether they subscribe a topic, in a look at a healthy group without news."""
    names = [f"t{number}" for number in range(topics)]
    routes = {name: replace(route(members, *BROKERS), topic=name) for name in names}
    state, asked = GroupState("c", "g", at(0)), []
    for second in (0, 30):
        for number in range(members):
            for broker_name in BROKERS:
                beat = Heartbeat(f"c{number:02}@1", f"h{number}:1", at(second), broker_name)
                state.membership.register(beat, subscribes(*names))
        state.is_stale = second == 0
        tick(state, routes, at(second), BrokerCoverage(), RULES)
    for name in names:
        for queue, queue_state in state.topics[name].queues.items():
            broker_name, _, queue_id = queue.rpartition(":")
            owner = queue_state.share.owner or ""
            number = int(owner[1:3])
            state.observe(Pull(owner, f"h{number}:1", int(queue_id), at(40), broker_name, name))
    sound = Member.subscribes

    def subscribes_topic(self: Member, topic: str) -> bool:
        asked.append(topic)
        return sound(self, topic)

    monkeypatch.setattr(Member, "subscribes", subscribes_topic)
    outcome = tick(state, routes, at(45), BrokerCoverage(), RULES)
    monkeypatch.undo()
    assert outcome.transitions == []
    assert {row.verdict for row in outcome.ownership} == {"OK"}
    return len(asked)


def test_a_look_does_not_ask_each_member_for_each_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    assert questions_of_a_look(30, 20, monkeypatch) <= 30 + 20 * len(BROKERS)
