"""Every producer's FaultItem of every broker, by the table of its own release, as far as one shard keeps them.

A batch costs brokers times producers after the combine, not sends. Clock events go to the brokers they speak for. Each
cluster has a pack of its own too, where its producers are judged together and alerts begin and end (fleet_turn.py).
"""

from collections.abc import Iterable, Sequence

from streaming.queries.chunk import Chunk
from streaming.queries.combiner import Keyed, Pack
from streaming.queries.complete import Complete
from streaming.queries.fleet_turn import FleetTurn
from streaming.queries.producers_aside import advance_or_set_aside
from streaming.queries.shard_rows import fault_item_row, health_row
from streaming.queries.shard_state import ShardState
from streaming.queries.working_set import key_of
from streaming.warehouse.rows import Rows
from udfs.alerts.rulebook import Rulebook
from udfs.producers.board import Board
from udfs.producers.fleet import Fleet
from udfs.producers.forgotten import forget_items

CUT_SKEW_MS = 60_000


class Sends:
    """What one batch brings to the boards and fleets of a shard."""

    def __init__(self, state: ShardState, rules: Rulebook, keyed: Iterable[Keyed]) -> None:
        self._state, self._rules = state, rules
        self._of_boards: dict[tuple[str, str], list[Pack]] = {}
        self._of_fleets: dict[str, list[Pack]] = {}
        for cluster, broker_name, pack in keyed:
            if broker_name is None:
                self._of_fleets.setdefault(cluster, []).append(pack)
            else:
                self._of_boards.setdefault((cluster, broker_name), []).append(pack)

    def read(self) -> list[Chunk]:
        """How far the batch read its partitions of sends."""
        return [chunk for packs in self._of_fleets.values() for pack in packs for chunk in pack.read]

    def advance_boards(self, *, may_be_cut: bool) -> Rows:
        """All boards' rows. Nothing is written but put on the shelves."""
        rows: Rows = {}
        for (cluster, broker_name), packs in sorted(self._of_boards.items()):
            for table, of_table in self._advance_board(cluster, broker_name, packs, may_be_cut=may_be_cut).items():
                rows.setdefault(table, []).extend(of_table)
        return rows

    def fleets(self, complete: Complete, *, is_once: bool = False) -> "Fleets":
        """The clusters' producers, to be judged beside their clusters."""
        return Fleets(self._state, self._rules, self._of_fleets, complete, is_once=is_once)

    def _advance_board(self, cluster: str, broker_name: str, packs: list[Pack], *, may_be_cut: bool) -> Rows:
        key, boards, rules = key_of(cluster, broker_name), self._state.boards, self._rules.of(cluster)
        if boards.get(key) is None and not any(pack.attempts for pack in packs):
            return {}  # a tick for a broker that nobody has sent to
        idle_ms = rules.fault_item_idle_ms
        state, rows = advance_or_set_aside(
            boards.get(key) or Board(),
            lambda: boards.get_anew(key) or Board(),
            lambda board: advance_board(board, packs, cluster, broker_name, idle_ms=idle_ms, may_be_cut=may_be_cut),
            {"cluster": cluster, "broker_name": broker_name},
            max(pack.newest_ms() for pack in packs),
            rules,
        )
        boards.put(key, state)
        return rows


class Fleets:
    """The turns of a shard's fleets in one batch, each begun when it is first asked for."""

    def __init__(
        self,
        state: ShardState,
        rules: Rulebook,
        packs: dict[str, list[Pack]],
        complete: Complete,
        *,
        is_once: bool = False,
    ) -> None:
        self._state, self._rules, self._packs = state, rules, packs
        self._complete, self._is_once = complete, is_once
        self._turns: dict[str, FleetTurn | None] = {}

    def of(self, cluster: str) -> FleetTurn | None:
        """None for a cluster in which nobody sends."""
        if cluster not in self._turns:
            self._turns[cluster] = self._begin(cluster)
        return self._turns[cluster]

    def finish(self) -> Rows:
        """The rows of all; every one that had a turn is put on its shelf."""
        rows: Rows = {}
        for cluster in sorted({*self._packs, *self._turns}):
            turn = self.of(cluster)
            if turn is None:
                continue
            for table, of_table in turn.finish().items():
                rows.setdefault(table, []).extend(of_table)
            self._state.fleets.put(key_of(cluster), turn.fleet)
        return rows

    def _begin(self, cluster: str) -> FleetTurn | None:
        key, fleets, packs = key_of(cluster), self._state.fleets, self._packs.get(cluster, [])
        if fleets.get(key) is None and not any(pack.fleet for pack in packs):
            return None
        known = self._state.shard_index.clusters.get(cluster)
        has_groups = known is not None and bool(known.groups or known.watch.topics)
        return FleetTurn(
            fleets.get(key) or Fleet(),
            lambda: fleets.get_anew(key) or Fleet(),
            packs,
            cluster,
            self._rules.of(cluster),
            most_ms=self._complete.most_ms(cluster, has_groups=has_groups),
            is_once=self._is_once,
            is_whole=self._complete.sends is None,
        )


def advance_board(
    board: Board, packs: Sequence[Pack], cluster: str, broker_name: str, *, idle_ms: int, may_be_cut: bool
) -> Rows:
    """Rows of one broker's batch. With `may_be_cut` a tick far ahead of the attempts beside it is left alone.

    maxOffsetsPerTrigger cuts the clock topic elsewhere than the attempts; the next tick will do.
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
