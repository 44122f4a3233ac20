"""Who has left a broker that is not heard: a client that lives sends a heartbeat to every broker of its topics.

A broker that died, or that nobody reaches, lists for ever whom it listed last. Without this rule whoever leaves
meanwhile stays a member there: an owner that never pulls, and a group that never ends.
"""

from collections.abc import Iterator, Mapping

from udfs.hearing import Hearing
from udfs.membership import EXPIRED, Change, Member, Membership
from udfs.route import Route


def expire_absent(
    membership: Membership, routes: Mapping[str, Route], hearing: Hearing, now_ms: int, late_ms: int
) -> Iterator[Change]:
    """Drop from unheard brokers each client whose heartbeats there are late (of `late_ms` or before), and that no
    broker lists which answers and has a topic of it. Where no such broker answers, nobody has left.
    """
    for broker_name in sorted(membership.views.keys() & hearing.unheard):
        for member in sorted(membership.views[broker_name].values(), key=lambda member: member.client_addr):
            if member.last_heartbeat_ms <= late_ms and _is_absent(member, membership, routes, hearing):
                membership.drop(broker_name, member.client_addr)
                yield Change(broker_name, member, EXPIRED, now_ms)


def _is_absent(member: Member, membership: Membership, routes: Mapping[str, Route], hearing: Hearing) -> bool:
    listing = {
        broker_name
        for topic, route in routes.items()
        if member.subscribes(topic)
        for broker_name in (route.broker_names() & hearing.answered) - hearing.unheard - set(route.without_master)
    }
    views = (membership.views.get(broker_name, {}) for broker_name in listing)
    return bool(listing) and not any(one.client_id == member.client_id for view in views for one in view.values())
