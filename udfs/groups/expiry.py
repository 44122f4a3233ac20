"""Members that time has made leave: brokers expired their channels, or they are absent from a broker without data.

A client that lives sends a heartbeat to every broker of its topics. A broker that died, or that nobody reaches, lists
for ever whom it listed last. Without the second rule whoever leaves meanwhile stays a member there: an owner that never
pulls, and a group that never ends.
"""

from collections.abc import Iterator, Mapping

from udfs.alerts.rules import Rules
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import EXPIRED, Change, Member, Membership
from udfs.rocketmq.route import Route


def expire(
    state: GroupState, routes: Mapping[str, Route], broker_coverage: BrokerCoverage, now_ms: int, rules: Rules
) -> list[Change]:
    """Phase 1. Members whose channels a broker has expired by now, or that are absent from a broker nobody hears."""
    membership, data_from_ms = state.membership, state.data_from_ms
    changes = list(membership.expire(now_ms, rules.channel_expired_ms, broker_coverage.without_data, data_from_ms))
    late_ms = now_ms - rules.heartbeat_late_ms
    if broker_coverage.without_data and data_from_ms <= late_ms:
        changes += _expire_absent(membership, routes, broker_coverage, now_ms, late_ms)
    return changes


def _expire_absent(
    membership: Membership, routes: Mapping[str, Route], broker_coverage: BrokerCoverage, now_ms: int, late_ms: int
) -> Iterator[Change]:
    """Drop from brokers without data each client whose heartbeats there are late (of `late_ms` or before), and that no
    broker lists which answers and has a topic of it. Where no such broker answers, nobody has left.
    """
    for broker_name in sorted(membership.views.keys() & broker_coverage.without_data):
        for member in sorted(membership.views[broker_name].values(), key=lambda member: member.client_addr):
            if member.last_heartbeat_ms <= late_ms and _is_absent(member, membership, routes, broker_coverage):
                membership.drop(broker_name, member.client_addr)
                yield Change(broker_name, member, EXPIRED, now_ms)


def _is_absent(
    member: Member, membership: Membership, routes: Mapping[str, Route], broker_coverage: BrokerCoverage
) -> bool:
    listing = {
        broker_name
        for topic, route in routes.items()
        if member.subscribes(topic)
        for broker_name in (route.broker_names() & broker_coverage.answered)
        - broker_coverage.without_data
        - set(route.without_master)
    }
    views = (membership.views.get(broker_name, {}) for broker_name in listing)
    return bool(listing) and not any(one.client_id == member.client_id for view in views for one in view.values())
