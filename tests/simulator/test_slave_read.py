"""Slave reads: when they are suggested, by whom they are granted, and where a client goes."""

import pytest

from streaming.simulator.slave_read import (
    MASTER_ID,
    SlaveReadConfig,
    may_pull,
    recalculate_pull_from_which_node,
    suggest_which_broker_id,
)
from udfs.rocketmq.version import NEWEST, ClientVersion

ALLOWED = SlaveReadConfig(slave_read_enable=True)


def test_nobody_is_sent_away_unless_slave_reads_are_allowed() -> None:
    assert suggest_which_broker_id(True, SlaveReadConfig()) == MASTER_ID
    assert suggest_which_broker_id(True, ALLOWED) == 1


def test_the_group_says_which_slave_and_where_to_pull_while_it_keeps_up() -> None:
    config = SlaveReadConfig(True, broker_id=3, which_broker_when_consume_slowly=2)
    assert suggest_which_broker_id(True, config) == 2
    assert suggest_which_broker_id(False, config) == 3


@pytest.mark.parametrize(
    ("has_master", "version", "suggested"),
    [(True, NEWEST, MASTER_ID), (False, NEWEST, 3), (True, (4, 9, 8), 3), (True, (5, 0, 0), MASTER_ID)],
)
def test_a_slave_sends_a_group_that_caught_up_back_to_the_master_from_5_0(
    has_master: bool, version: ClientVersion, suggested: int
) -> None:
    config = SlaveReadConfig(True, broker_id=3)
    asked = suggest_which_broker_id(False, config, asked_broker_id=1, has_master=has_master, broker_version=version)
    assert asked == suggested


def test_a_slave_counts_on_its_master_unless_reported_that_it_is_gone() -> None:
    assert suggest_which_broker_id(False, SlaveReadConfig(True, broker_id=3), asked_broker_id=1) == MASTER_ID


def test_a_slave_keeps_a_group_that_is_still_behind() -> None:
    assert suggest_which_broker_id(True, ALLOWED, asked_broker_id=1) == 1


def test_a_slave_refuses_pulls_by_default_even_with_its_master_gone() -> None:
    assert may_pull(MASTER_ID, slave_read_enable=False)
    assert not may_pull(1, slave_read_enable=False)
    assert may_pull(1, slave_read_enable=True)


@pytest.mark.parametrize(
    ("suggested", "broker_ids", "asked"),
    [
        (0, {0, 1}, 0),
        (1, {0, 1}, 1),
        (1, {0, 2}, 2),
        (1, {0}, 0),
        (1, {0, 3}, 0),
        (0, {1, 2}, 1),
        (2, {0, 1}, 0),
        (0, set(), None),
    ],
)
def test_a_client_asks_whom_the_last_answer_named_or_whoever_is_there(
    suggested: int, broker_ids: set[int], asked: int | None
) -> None:
    assert recalculate_pull_from_which_node(suggested, broker_ids) == asked


def test_up_to_4_7_1_a_missing_slave_is_not_replaced_by_the_next() -> None:
    assert recalculate_pull_from_which_node(1, {0, 2}, (4, 7, 1)) == 0
    assert recalculate_pull_from_which_node(1, {0, 2}, (4, 8, 0)) == 2
