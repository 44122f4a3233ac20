"""What of one group is missing in the newest round: it is unknown, so neither silent nor gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from udfs.brokers.broker_coverage import EVERY_MEMBER, NO_PULLS, BrokerCoverage
from udfs.groups.verdict_reason import NOT_ASKED, UNASKED


@dataclass(frozen=True)
class NotAsked:
    """The reasons are those of verdict_reason.

    brokers  broker → why it gave no data of the group
    members  ClientId → why the member's own answer is missing; its heartbeats may arrive all the same
    lately   the members whose answer was missing in the newest rounds only: what they answered before still holds
    mute     brokers whose pulls are unknown; their heartbeats and offsets are known
    """

    brokers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    lately: frozenset[str] = frozenset()
    mute: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        consumer_group: str,
        brokers: Iterable[str],
        client_ids: Iterable[str],
        broker_coverage: BrokerCoverage,
        lately_ms: int,
    ) -> "NotAsked":
        """`brokers` and `client_ids` are the group's. An answer that is missing since after `lately_ms` is missing
        lately.
        """
        if not broker_coverage.unasked:
            return NOTHING
        of_brokers: dict[str, str] = {}
        since_ms: dict[str, int] = {}
        reasons: dict[str, str] = {}
        mute: set[str] = set()
        known, members = sorted(brokers), sorted(set(client_ids))
        for one in broker_coverage.unasked:
            if one.consumer_group not in (None, consumer_group):
                continue
            reason = UNASKED.get(one.reason, NOT_ASKED)
            if one.client_id is not None:
                for client_id in members if one.client_id == EVERY_MEMBER else (one.client_id,):
                    reasons.setdefault(client_id, reason)
                    since_ms[client_id] = min(one.since_ms, since_ms.get(client_id, one.since_ms))
            elif one.reason == NO_PULLS:
                mute.update(known if one.broker_name is None else [one.broker_name])
            else:
                of_brokers |= dict.fromkeys(known if one.broker_name is None else [one.broker_name], reason)
        lately = frozenset(client_id for client_id, at_ms in since_ms.items() if at_ms > lately_ms)
        return cls(of_brokers, reasons, lately, frozenset(mute))

    @property
    def missing(self) -> frozenset[str]:
        """The members whose own answers are missing data by now."""
        return frozenset(self.members) - self.lately

    def is_lately(self, owner: str | None) -> bool:
        """Whether the answer that is missing of a queue with this owner, or of all its members, is missing lately."""
        return self.lately >= (self.members.keys() if owner is None else {owner}) and bool(self.lately)


NOTHING = NotAsked()
