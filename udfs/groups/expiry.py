"""Members that left by time: brokers expired their channels, or no living broker lists them.

A living client sends a heartbeat to every broker of its topics. A dead broker keeps its last list, so a client that
leaves meanwhile would stay a member there: an owner that never pulls, in a group that never ends.
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
    """Phase 1. Return the members whose channels expired, or that left while a broker gives no data."""
    membership, data_from_ms = state.membership, state.data_from_ms
    changes = list(membership.expire(now_ms, rules.channel_expired_ms, broker_coverage.without_data, data_from_ms))
    late_ms = now_ms - rules.heartbeat_late_ms
    dead = broker_coverage.without_data | broker_coverage.silent
    if dead and data_from_ms <= late_ms:
        changes += _expire_absent(membership, routes, broker_coverage, dead, now_ms, late_ms)
    return changes


def _expire_absent(
    membership: Membership,
    routes: Mapping[str, Route],
    broker_coverage: BrokerCoverage,
    dead: frozenset[str],
    now_ms: int,
    late_ms: int,
) -> Iterator[Change]:
    """Drop a client from a dead broker if its heartbeats there are late (of `late_ms` or before) and no living broker
    of its topics lists it. If none lives, no client has left.
    """
    for broker_name in sorted(membership.views.keys() & dead):
        for member in sorted(membership.views[broker_name].values(), key=lambda member: member.client_addr):
            if member.last_heartbeat_ms <= late_ms and _is_absent(member, membership, routes, broker_coverage, dead):
                membership.drop(broker_name, member.client_addr)
                yield Change(broker_name, member, EXPIRED, now_ms)


def _is_absent(
    member: Member,
    membership: Membership,
    routes: Mapping[str, Route],
    broker_coverage: BrokerCoverage,
    dead: frozenset[str],
) -> bool:
    """Whether living brokers serve the member's topics and none lists it. Agents report heartbeats, not answers."""
    listing = {
        broker_name
        for topic, route in routes.items()
        if member.subscribes(topic)
        for broker_name in route.broker_names() - dead - set(route.without_master)
        if not broker_coverage.answered or broker_name in broker_coverage.answered
    }
    views = (membership.views.get(broker_name, {}) for broker_name in listing)
    return bool(listing) and not any(one.client_id == member.client_id for view in views for one in view.values())
