"""The matrix of queues and clients: which columns there are, and what each cell says, for every verdict."""

from typing import Any

import pytest

from streaming.board.pages.group_tables import Channel, Group, Queue
from streaming.board.pages.matrix import Cell, build_matrix, clients_of, order_queues

A, B, C = "10.0.0.1@7#1", "10.0.0.2@7#2", "10.0.0.3@7#3"


def channel(client_id: str, client_addr: str, broker_name: str = "broker-a") -> Channel:
    return Channel(broker_name, client_id, client_addr, "JAVA", "V4_9_8", ("orders",), "AVG", 0, 0)


def queue(verdict: str, planned: str | None, *observed: str, queue_id: int = 0, broker: str = "broker-a") -> Queue:
    return Queue("orders", broker, queue_id, planned, observed, verdict, 0)


def group(*channels: Channel, queues: tuple[Queue, ...] = ()) -> Group:
    return Group("c", "billing", None, queues, channels, ())


TWO = (channel(A, "10.0.0.1:5"), channel(B, "10.0.0.2:5"))
TWINS = (
    channel("x@7", "10.0.0.1:50"),
    channel("x@7", "10.0.0.2:60"),
    channel("x@7", "10.0.0.1:51", "broker-b"),
    channel("x@7", "10.0.0.2:61", "broker-b"),
)
ON_ONE_HOST = (
    channel("x@7", "10.0.0.1:50"),
    channel("x@7", "10.0.0.1:60"),
    channel("x@7", "10.0.0.1:51", "broker-b"),
    channel("x@7", "10.0.0.1:61", "broker-b"),
)


def keys(clients: Any) -> list[str]:
    return [client.key for client in clients]


def test_columns_are_in_the_order_of_cid_all_and_twins_have_one_each() -> None:
    """Twins on one host are columns by address, since ports differ by broker."""
    assert keys(clients_of([channel(B, "10.0.0.2:5"), channel(C, "10.0.0.3:5"), channel(A, "10.0.0.1:5")])) == [A, B, C]
    one, other = clients_of(TWINS)
    assert (one.key, one.addrs) == ("x@7 at 10.0.0.1", ("10.0.0.1:50", "10.0.0.1:51"))
    assert (other.key, other.addrs) == ("x@7 at 10.0.0.2", ("10.0.0.2:60", "10.0.0.2:61"))
    assert keys(clients_of(ON_ONE_HOST)) == [f"x@7 at 10.0.0.1:{port}" for port in (50, 51, 60, 61)]


@pytest.mark.parametrize(
    ("one", "cells"),
    [
        (queue("OK", A, A), {A: Cell.OWNS}),
        (queue("OK", A, A, B), {A: Cell.OWNS, B: Cell.HANDED_OVER}),
        (queue("UNOWNED", None), {}),
        (queue("NOT_CONSUMED", A), {A: Cell.ABSENT}),
        (queue("DOUBLE_CONSUMED", A, A, B), {A: Cell.OWNS_TOO, B: Cell.TAKES_TOO}),
        (queue("MISPLACED", A, B), {A: Cell.ABSENT, B: Cell.TAKES}),
        (queue("UNKNOWN", A), {A: Cell.ABSENT}),
        (queue("NOT_JUDGED", None, A, B), {A: Cell.PULLS, B: Cell.PULLS}),
        (queue("MISPLACED", A, "10.0.0.2:5"), {A: Cell.ABSENT, B: Cell.TAKES}),
    ],
    ids=lambda value: f"{value.verdict}-{len(value.observed_owners)}" if isinstance(value, Queue) else "",
)
def test_each_verdict_has_its_cells(one: Queue, cells: dict[str, Cell]) -> None:
    (line,) = build_matrix(group(*TWO), [one]).lines
    assert line.cells == cells


def test_no_two_cells_share_their_words_and_every_sign_is_there_without_colour() -> None:
    assert len({str(cell.words) for cell in Cell}) == len(Cell)
    assert all(cell.sign.strip() for cell in Cell)


def test_cells_of_twins() -> None:
    """A pull that either may have sent is of one of them; by address, cells are at the queue's broker only."""
    observed = ("x@7 at 10.0.0.1:50", "x@7 at 10.0.0.2:60")
    (line,) = build_matrix(group(*TWINS), [queue("DOUBLE_CONSUMED", "x@7", *observed)]).lines
    assert line.cells == {"x@7 at 10.0.0.1": Cell.OWNS_TOO, "x@7 at 10.0.0.2": Cell.OWNS_TOO}
    (line,) = build_matrix(group(*TWINS), [queue("OK", "x@7", "x@7")]).lines
    assert line.cells == {"x@7 at 10.0.0.1": Cell.ONE_OF, "x@7 at 10.0.0.2": Cell.ONE_OF}
    (line,) = build_matrix(group(*ON_ONE_HOST), [queue("NOT_CONSUMED", "x@7", broker="broker-b")]).lines
    assert line.cells == {"x@7 at 10.0.0.1:51": Cell.ABSENT, "x@7 at 10.0.0.1:61": Cell.ABSENT}


def test_who_pulls_without_being_a_member_has_a_column_that_says_so() -> None:
    matrix = build_matrix(group(*TWO), [queue("MISPLACED", A, "10.9.9.9:1", C)])
    strangers = [client for client in matrix.clients if not client.is_member]
    assert keys(strangers) == [C, "10.9.9.9:1"]
    assert matrix.lines[0].cells[C] is Cell.TAKES


def test_of_many_clients_only_those_that_matter_here_have_columns_and_the_others_are_counted() -> None:
    ids = [f"10.0.0.{number:03}@7" for number in range(30)]
    many = group(*(channel(cid, f"{cid}:1") for cid in ids))
    queues = [queue("OK", cid, cid, queue_id=number) for number, cid in enumerate(ids[:6])]
    queues.append(queue("NOT_CONSUMED", ids[20], queue_id=99))
    matrix = build_matrix(many, queues, most_columns=4)
    assert ids[20] in keys(matrix.clients)
    assert (len(matrix.clients), len(matrix.rest), matrix.elsewhere) == (4, 3, 23)
    assert all(key in {*keys(matrix.clients), *matrix.rest} for line in matrix.lines for key in line.cells)


def test_worst_first_puts_verdicts_before_names_and_by_queue_the_other_way_round() -> None:
    queues = [queue("OK", A, A), queue("UNKNOWN", A, queue_id=1), queue("UNOWNED", None, queue_id=2)]
    assert [one.verdict for one in order_queues(queues, "worst")] == ["UNOWNED", "UNKNOWN", "OK"]
    assert [one.queue_id for one in order_queues(reversed(queues), "queue")] == [0, 1, 2]
