"""Which of the receivers that are there an alert goes to, and by which route."""

from collections.abc import Collection, Sequence

from streaming.oncall.notice import Notice
from streaming.oncall.own_alerts import CANARY, CANARY_CLUSTER, DELIVERY_FAILED
from streaming.oncall.quota import Quota
from streaming.oncall.transition import match_labels
from udfs.page_limit import MORE_ALERTS
from udfs.routing import Route, pick_receivers


class AddressBook:
    """The routes, and the ways of our own alerts. `names` are the receivers that are there."""

    def __init__(self, routes: Sequence[Route], quiet: Sequence[str], names: Collection[str], quota: Quota) -> None:
        self._routes, self._quiet = tuple(routes), tuple(quiet)
        self._names, self._quota = names, quota

    def receivers_of(self, notice: Notice) -> dict[str, str]:
        """Receiver to route; empty where nobody is told."""
        if notice.cluster == CANARY_CLUSTER:
            return {CANARY: CANARY} if CANARY in self._names else {}
        if notice.kind == DELIVERY_FAILED:
            deaf = {CANARY, notice.labels.get("receiver")}
            return {name: DELIVERY_FAILED for name in self._names if name not in deaf}
        if notice.kind == MORE_ALERTS:
            held_back = self._quota.held_back(notice.cluster, notice.labels.get("limited_kind", ""))
            return {name: MORE_ALERTS for one in held_back for name in self.receivers_of(one)}
        picked = pick_receivers(self._routes, match_labels(notice), self._quiet)
        return {name: route for name, route in picked.items() if name in self._names}
