"""Which of the receivers that are there an alert goes to, and by which route."""

from collections.abc import Collection, Sequence

from conf.oncall import CANARY
from streaming.oncall.notice import Notice
from streaming.oncall.rate_limit import RateLimit
from streaming.oncall.transition import match_labels
from udfs.alerts.firing_limit import ALERTS_LIMITED
from udfs.alerts.routing import Route, pick_receivers
from udfs.alerts.rulebook import CANARY_CLUSTER
from udfs.alerts.self_kinds import DELIVERY_FAILED


class AddressBook:
    """The routes, and the ways of our own alerts. `names` are the receivers that are there."""

    def __init__(
        self, routes: Sequence[Route], quiet: Sequence[str], names: Collection[str], rate_limit: RateLimit
    ) -> None:
        self._routes, self._quiet = tuple(routes), tuple(quiet)
        self._names, self._rate_limit = names, rate_limit

    def receivers_of(self, notice: Notice) -> dict[str, str]:
        """Receiver to route; empty where nobody is told."""
        if notice.cluster == CANARY_CLUSTER:
            return {CANARY: CANARY} if CANARY in self._names else {}
        if notice.kind == DELIVERY_FAILED:
            deaf = {CANARY, notice.labels.get("receiver")}
            return {name: DELIVERY_FAILED for name in self._names if name not in deaf}
        if notice.kind == ALERTS_LIMITED:
            limited = self._rate_limit.limited(notice.cluster, notice.labels.get("limited_kind", ""))
            return {name: ALERTS_LIMITED for one in limited for name in self.receivers_of(one)}
        picked = pick_receivers(self._routes, match_labels(notice), self._quiet)
        return {name: route for name, route in picked.items() if name in self._names}
