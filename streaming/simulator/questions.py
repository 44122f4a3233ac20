"""A collector's questions to clients (GET_CONSUMER_RUNNING_INFO): who answers a round's, and who is left in peace."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from streaming.simulator.broker import Broker
from streaming.simulator.conditions import Conditions
from streaming.simulator.consumer import Consumer
from streaming.simulator.suspects import Suspects

PEACE_MS = 60_000
LONGEST_PEACE_MS = 3_600_000

Member = tuple[str, str]
"""Group and ClientId."""


@dataclass(slots=True)
class Peace:
    """A member that did not answer is asked again at `until_ms`; it gave data last before `since_ms`."""

    since_ms: int
    until_ms: int
    wait_ms: int
    reason: str


class Questions:
    """Remembers who did not answer. `begin` starts a round."""

    def __init__(self, conditions: Conditions, suspects: Suspects, random: Random) -> None:
        self._conditions = conditions
        self._suspects = suspects
        self._random = random
        self._peace: dict[Member, Peace] = {}
        self._answered_ms: dict[Member, int] = {}
        self._before_ms: dict[Member, int] = {}
        self._listed: set[Member] = set()
        self._now_ms = 0

    def begin(self, now_ms: int) -> None:
        """A round begins: those left in peace and listed no more are forgotten."""
        self._now_ms = now_ms
        self._peace = {member: peace for member, peace in self._peace.items() if member in self._listed}
        self._listed = set()

    def is_answered(self, consumer: Consumer, views: Mapping[str, Broker]) -> bool:
        """Whether the member is asked in this round and answers. Nobody asks a client that no broker lists."""
        client = consumer.client
        listing = [
            name for name, broker in views.items() if any(one.client is client for one in broker.asked_node.reported)
        ]
        if not listing:
            return False
        member = (consumer.consumer_group, client.client_id)
        self._listed.add(member)
        peace = self._peace.get(member)
        if peace is not None and self._now_ms < peace.until_ms:
            peace.reason = "left_in_peace"
            return False
        is_lost = self._random.random() < self._conditions.lost_answers
        is_reached = any(name not in client.connections.cut for name in listing)
        if client.is_live and is_reached and not is_lost and client.client_id not in self._suspects.mute:
            self._peace.pop(member, None)
            self._before_ms[member] = self._answered_ms.get(member, 0)
            self._answered_ms[member] = self._now_ms
            return True
        self._leave_in_peace(member, peace)
        return False

    def _leave_in_peace(self, member: Member, peace: Peace | None) -> None:
        wait_ms = min(2 * peace.wait_ms, LONGEST_PEACE_MS) if peace else PEACE_MS
        until_ms = self._now_ms + wait_ms
        if self._conditions.is_plain and member[1] in self._suspects.listed_only:
            until_ms = 1 << 60  # it waits for a heartbeat that no broker tells
        self._peace[member] = Peace(peace.since_ms if peace else self._now_ms, until_ms, wait_ms, "timed_out")

    def answered_before_ms(self, consumer: Consumer) -> int:
        """When the member answered last before this round; 0: never."""
        return self._before_ms.get((consumer.consumer_group, consumer.client.client_id), 0)

    def has_answered(self, client_id: str) -> bool:
        """Whether the client answered in this round."""
        return any(at_ms == self._now_ms and member[1] == client_id for member, at_ms in self._answered_ms.items())

    def unheard(self, ahead_ms: int) -> list[dict[str, Any]]:
        """For the clock event: the members that a broker lists and that did not answer."""
        return [
            {
                "broker_name": None,
                "consumer_group": member[0],
                "client_id": member[1],
                "reason": peace.reason,
                "since_ms": peace.since_ms + ahead_ms,
            }
            for member, peace in sorted(self._peace.items())
            if member in self._listed
        ]
