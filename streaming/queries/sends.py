"""FaultItems of producers: a board for each broker, a fleet for each cluster, as far as one shard keeps them.

A batch costs brokers times producers after the packing, not sends. A board's rows are its broker's; a cluster's fleet
is evaluated turn by turn with the cluster's clock events, and its alerts begin and end there. Each knows what the other
had reported by then, so a dead broker is one cause for groups and producers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from streaming.queries.parcel import Pack
from streaming.queries.rows import CLOCK_NEEDED, alert_row, fault_item_row, health_row
from streaming.queries.state import ShardState
from streaming.queries.store import RETRIED
from streaming.queries.waiting import CLOCK_MISSED_MS, Complete
from streaming.queries.working_set import come_back, key_of, set_aside
from streaming.warehouse.rows import Rows
from udfs.alerts.alert import Transition
from udfs.alerts.rulebook import Rulebook
from udfs.alerts.rules import Rules
from udfs.brokers.cluster_findings import end_drop
from udfs.brokers.cluster_state import Gone
from udfs.producers.board import Board
from udfs.producers.findings import failing_brokers, judge_fleet
from udfs.producers.fleet import (
    RUNS,
    Fleet,
    Passage,
    alerts_of_drop,
    close_unasked,
    drop_oldest,
    forget_items,
    forget_of_fleet,
    time_of_log,
)

CUT_SKEW_MS = 60_000


def advance_boards(
    state: ShardState, rulebook: Rulebook, packs_by_board: Mapping[tuple[str, str], list[Pack]], *, may_be_cut: bool
) -> Iterator[Rows]:
    """Advance all boards of the batch, put them on their shelf, and yield their rows."""
    boards = state.boards
    for (cluster, broker_name), packs in sorted(packs_by_board.items()):
        key, rules = key_of(cluster, broker_name), rulebook.of(cluster)
        board = boards.get(key)
        if board is None and not any(pack.attempts for pack in packs):
            continue  # a clock event for a broker without sends
        board = board or Board()
        now_ms = max(pack.newest_ms() for pack in packs)
        try:
            idle_ms = rules.fault_item_idle_ms
            of_board = advance_board(board, packs, cluster, broker_name, idle_ms=idle_ms, may_be_cut=may_be_cut)
        except RETRIED:
            raise
        except Exception as error:  # an error of a rule must not end the query
            board = boards.get_anew(key) or Board()
            of_board = set_aside(board, error, {"cluster": cluster, "broker_name": broker_name}, now_ms, rules)
        else:
            of_board["alerts"] = [alert_row(transition) for transition in come_back(board, now_ms)]
        boards.put(key, board)
        yield of_board


class Fleets:
    """The turns of a shard's fleets in one batch; each begins on first use."""

    def __init__(
        self, state: ShardState, rules: Rulebook, packs: dict[str, list[Pack]], complete: Complete, *, is_once: bool
    ) -> None:
        self._state, self._rules, self._packs = state, rules, packs
        self._complete, self._is_once = complete, is_once
        self._turns: dict[str, FleetTurn | None] = {}

    def of(self, cluster: str) -> "FleetTurn | None":
        """Return the cluster's turn; None for a cluster without sends."""
        if cluster in self._turns:
            return self._turns[cluster]
        key, fleets, packs = key_of(cluster), self._state.fleets, self._packs.get(cluster, [])
        turn, fleet = None, fleets.get(key)
        if fleet is not None or any(pack.fleet for pack in packs):
            known = self._state.shard_index.clusters.get(cluster)
            has_groups = known is not None and bool(known.groups or known.watch.topics)
            turn = FleetTurn(
                fleet or Fleet(),
                lambda: fleets.get_anew(key) or Fleet(),
                packs,
                cluster,
                self._rules.of(cluster),
                most_ms=self._complete.most_ms(cluster, has_groups=has_groups),
                is_once=self._is_once,
                is_whole=self._complete.sends is None,
            )
        self._turns[cluster] = turn
        return turn

    def finish(self) -> Iterator[Rows]:
        """End all turns, put the fleets on their shelf, and yield their rows."""
        for cluster in sorted({*self._packs, *self._turns}):
            turn = self.of(cluster)
            if turn is None:
                continue
            yield turn.finish()
            self._state.fleets.put(key_of(cluster), turn.fleet)


def advance_board(
    board: Board, packs: Sequence[Pack], cluster: str, broker_name: str, *, idle_ms: int, may_be_cut: bool
) -> Rows:
    """Advance one broker's board by a batch, and return its rows.

    With `may_be_cut` a clock event far ahead of the attempts is ignored: maxOffsetsPerTrigger cuts the clock topic at
    another time than the attempts, and the next clock event will do.
    """
    forgotten_ms = max((at_ms for pack in packs for _, _, at_ms, _ in pack.forgotten), default=0)
    closed, last = forget_items(board, forgotten_ms) if forgotten_ms else ([], [])
    attempts = [of for pack in packs for of in pack.attempts if of.steps[-1].to_ms > forgotten_ms]
    newest_ms = max((of.steps[-1].to_ms for of in attempts), default=None)
    tick_ms = max((pack.tick_ms for pack in packs if pack.tick_ms is not None), default=None)
    if may_be_cut and tick_ms and newest_ms and tick_ms > newest_ms + CUT_SKEW_MS:
        tick_ms = None
    flips, health = board.advance(attempts, tick_ms, idle_ms)
    return {
        "fault_items": [fault_item_row(cluster, broker_name, flip) for flip in (*closed, *flips)],
        "broker_health": [health_row(cluster, broker_name, row) for row in (*last, *health)],
    }


class FleetTurn:
    """One cluster's producers in one batch: taken in at once, then evaluated clock event by clock event.

    `fleet` is changed in place; `read` returns it as it was before the batch. Nothing is written. `most_ms` is the
    newest time at which no data is missing (Complete.most_ms), None for any. With `is_once` nothing more is read later,
    and no clock events are published; `is_whole`: all data was read.
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
        """Evaluate the fleet at each moment up to then; return the failing brokers and their incidents."""
        self._guard(lambda: self._judge(until_ms))
        return failing_brokers(self.fleet)

    def note_gone(self, gone: Mapping[str, Gone], now_ms: int) -> None:
        """Take in the cluster's dead brokers as of a clock event, for the moments after it."""
        if self._failed is None:
            self.fleet.note_gone(gone, now_ms)

    def finish(self) -> Rows:
        rows: Rows = {}
        self._guard(lambda: rows.update(self._end()))
        if self._failed is not None:
            return self._failed
        rows["alerts"] = [alert_row(each) for each in (*self._reported, *come_back(self.fleet, self._now_ms))]
        return rows

    def _guard(self, work: Callable[[], Any]) -> None:
        """Bring back the fleet as it was before the batch if a rule fails."""
        if self._failed is not None:
            return
        try:
            work()
        except RETRIED:
            raise
        except Exception as error:  # an error of a rule must not end the query
            self.fleet = self._read()
            labels = {"cluster": self._cluster}
            self._failed = set_aside(self.fleet, error, labels, self._now_ms, self._rules)

    def _take_in(self) -> None:
        fleet, packs, rules = self.fleet, self._packs, self._rules
        forgotten = [decision for pack in packs for decision in pack.forgotten]
        self._reported += [transition for decision in forgotten for transition in forget_of_fleet(fleet, *decision)]
        self._forgotten_ms = max((at_ms for _, _, at_ms, _ in forgotten), default=0)
        fleet.learn_lags(lag for pack in packs for lag in pack.lags)
        ticks_ms = [fleet.tick_ms, *(tick_ms for pack in packs for tick_ms in pack.ticks_ms)]
        for pack in packs:
            for broker_name, producers in pack.fleet.items():
                for attempts in producers:
                    if attempts.steps[-1].to_ms > self._forgotten_ms:
                        fleet.add(broker_name, attempts)
            fleet.tick_ms = max(fleet.tick_ms, pack.tick_ms or 0)
            for broker_name in pack.asked_ms.keys() & fleet.boards.keys():
                seen = fleet.boards[broker_name]
                seen.heard_ms = max(seen.heard_ms, pack.asked_ms[broker_name])
        to_ms = fleet.tick_ms
        if self._is_once:
            to_ms = time_of_log(fleet, rules.no_data_page_ms, is_whole=self._is_whole)
        self._before_ms = fleet.judged_ms
        to_ms = to_ms if self._most_ms is None else min(to_ms, self._most_ms)
        self._passage = Passage(fleet, to_ms, rules, ticks_ms)

    def _judge(self, until_ms: int | None = None) -> None:
        for _ in self._passage.moments(until_ms):
            self._reported += judge_fleet(self.fleet, self._cluster, self._rules)

    def _end(self) -> Rows:
        self._judge()
        fleet, cluster = self.fleet, self._cluster
        if fleet.judged_ms > self._before_ms:
            self._reported += end_drop(fleet, fleet.judged_ms, RUNS)
        if dropped := drop_oldest(fleet):
            self._reported += alerts_of_drop(fleet, cluster, dropped, self._rules)
        closed = list(close_unasked(fleet, self._rules.fault_item_idle_ms))
        sent_ms = (of.steps[-1].to_ms for pack in self._packs for each in pack.fleet.values() for of in each)
        newest_ms, since_ms = max(sent_ms, default=0), max(fleet.tick_ms + CLOCK_MISSED_MS, self._forgotten_ms)
        # Only producers report the cluster, and it was not forgotten since: `run` sends its clock events.
        is_wanted = newest_ms > since_ms and not any(pack.tick_ms for pack in self._packs)
        return {
            "fault_items": [
                fault_item_row(cluster, broker_name, flip) for broker_name, flips, _ in closed for flip in flips
            ],
            "broker_health": [health_row(cluster, broker_name, health) for broker_name, _, health in closed],
            CLOCK_NEEDED: [{"cluster": cluster, "is_wanted": True, "newest_ms": newest_ms}] if is_wanted else [],
        }
