"""One cluster's producers in one batch: taken in at once, then judged tick by tick beside the cluster itself.

Each of the two knows what the other had told by then, so a broker that is gone is one cause, whoever tells it first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from streaming.queries.combiner import Pack
from streaming.queries.producers_aside import come_back, set_aside
from streaming.queries.shard_clock import CLOCK_MISSED_MS, CLOCK_NEEDED
from streaming.queries.shard_rows import alert_row, fault_item_row, health_row
from streaming.queries.shard_store import RETRIED
from streaming.warehouse.rows import Rows
from udfs.alerts.alert import Transition
from udfs.alerts.rules import Rules
from udfs.brokers.trouble import Gone
from udfs.producers.findings import judge_fleet
from udfs.producers.fleet import Fleet
from udfs.producers.forgotten import forget_of_fleet
from udfs.producers.gone_broker import failing_brokers
from udfs.producers.passage import Passage
from udfs.producers.unasked_boards import close_unasked, note_asked
from udfs.producers.waiting_sends import alerts_of_drop, drop_oldest, end_drop, time_of_log


class FleetTurn:
    """`fleet` is changed in place; `read` gives it anew, as it was before the batch. Nothing is written.

    `most_ms` is the newest time at which nothing that is judged is missing (complete.py), None for any. With `is_once`
    nothing that comes later is read, and nobody keeps a clock; `is_whole`: all that there is was read.
    """

    def __init__(
        self,
        fleet: Fleet,
        read: Callable[[], Fleet],
        packs: Sequence[Pack],
        cluster: str,
        rules: Rules,
        *,
        most_ms: int | None = None,
        is_once: bool = False,
        is_whole: bool = True,
    ) -> None:
        self.fleet = fleet
        self._read, self._packs, self._cluster, self._rules = read, packs, cluster, rules
        self._most_ms, self._is_once, self._is_whole = most_ms, is_once, is_whole
        self._now_ms = max((pack.newest_ms() for pack in packs), default=fleet.tick_ms)
        self._reported: list[Transition] = []
        self._failed: Rows | None = None
        self._guard(self._take_in)

    def advance(self, until_ms: int) -> dict[str, str]:
        """Judge the fleet at each moment up to then; the brokers that it tells are failing, and their incidents."""
        self._guard(lambda: self._judge(until_ms))
        return failing_brokers(self.fleet)

    def note_gone(self, gone: Mapping[str, Gone], now_ms: int) -> None:
        """What the cluster tells of its brokers as of a tick, to be known at the moments after it."""
        if self._failed is None:
            self.fleet.note_gone(gone, now_ms)

    def finish(self) -> Rows:
        """Judge what is left; all rows of the batch."""
        rows: Rows = {}
        self._guard(lambda: rows.update(self._end()))
        if self._failed is not None:
            return self._failed
        rows["alerts"] = [*map(alert_row, self._reported), *come_back(self.fleet, self._now_ms)]
        return rows

    def _guard(self, work: Callable[[], Any]) -> None:
        """What a rule raises at leaves the fleet as it was before the batch."""
        if self._failed is not None:
            return
        try:
            work()
        except RETRIED:
            raise
        except Exception as error:  # whatever a rule raises must not end the query
            self.fleet = self._read()
            labels = {"cluster": self._cluster}
            self._failed = set_aside(self.fleet, error, labels, self._now_ms, self._rules)

    def _take_in(self) -> None:
        fleet, packs, rules = self.fleet, self._packs, self._rules
        forgotten = [one for pack in packs for one in pack.forgotten]
        self._reported += [transition for one in forgotten for transition in forget_of_fleet(fleet, *one)]
        self._forgotten_ms = max((at_ms for _, _, at_ms, _ in forgotten), default=0)
        fleet.learn_lags(lag for pack in packs for lag in pack.lags)
        for pack in packs:
            for broker_name, producers in pack.fleet.items():
                for attempts in producers:
                    if attempts.steps[-1].to_ms > self._forgotten_ms:
                        fleet.add(broker_name, attempts)
            fleet.tick_ms = max(fleet.tick_ms, pack.tick_ms or 0)
            note_asked(fleet, pack.asked_ms)
        to_ms = fleet.tick_ms
        if self._is_once:
            to_ms = time_of_log(fleet, rules.no_data_page_ms, is_whole=self._is_whole)
        self._before_ms = fleet.judged_ms
        to_ms = to_ms if self._most_ms is None else min(to_ms, self._most_ms)
        self._passage = Passage(fleet, to_ms, rules.fault_item_idle_ms)

    def _judge(self, until_ms: int | None = None) -> None:
        for _ in self._passage.moments(until_ms):
            self._reported += judge_fleet(self.fleet, self._cluster, self._rules)

    def _end(self) -> Rows:
        self._judge()
        fleet, cluster = self.fleet, self._cluster
        if fleet.judged_ms > self._before_ms:
            self._reported += end_drop(fleet, fleet.judged_ms)
        if dropped := drop_oldest(fleet):
            self._reported += alerts_of_drop(fleet, cluster, dropped, self._rules)
        closed = list(close_unasked(fleet, self._rules.fault_item_idle_ms))
        return {
            "fault_items": [fault_item_row(cluster, one.broker_name, flip) for one in closed for flip in one.flips],
            "broker_health": [health_row(cluster, one.broker_name, one.health) for one in closed],
            CLOCK_NEEDED: list(self._clock_wanted()),
        }

    def _clock_wanted(self) -> Iterator[dict[str, Any]]:
        """Producers alone may feed a cluster, which then has no clock but ours; none of one forgotten since."""
        packs = self._packs
        newest_ms = max(
            (of.steps[-1].to_ms for pack in packs for each in pack.fleet.values() for of in each), default=0
        )
        since_ms = max(self.fleet.tick_ms + CLOCK_MISSED_MS, self._forgotten_ms)
        if newest_ms > since_ms and not any(pack.tick_ms for pack in packs):
            yield {"cluster": self._cluster, "is_wanted": True, "newest_ms": newest_ms}
