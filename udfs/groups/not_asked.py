"""What of one group nobody asked, or was not told, in the newest round: it is not known, so neither silent nor gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.verdict_reason import BROKER_NO_DATA, reason_of_unasked


@dataclass(frozen=True)
class NotAsked:
    """`brokers` is broker → why the group gives no data there, `members` ClientId → why its own word is missing; the
    reasons are those of verdict_reason. A member's heartbeats may give data all the same.
    """

    brokers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, consumer_group: str, brokers: Iterable[str], broker_coverage: BrokerCoverage) -> "NotAsked":
        """`brokers` are those the group is concerned with."""
        if not broker_coverage.unasked:
            return NOTHING
        of_brokers: dict[str, str] = {}
        members: dict[str, str] = {}
        known = sorted(brokers)
        for one in broker_coverage.unasked:
            if one.consumer_group not in (None, consumer_group):
                continue
            reason = reason_of_unasked(one.reason)
            if one.client_id is not None:
                members.setdefault(one.client_id, reason)
            else:
                of_brokers |= dict.fromkeys(known if one.broker_name is None else [one.broker_name], reason)
        return cls(of_brokers, members)

    def why_no_data(self, broker_name: str) -> str:
        return self.brokers.get(broker_name, BROKER_NO_DATA)


NOTHING = NotAsked()
