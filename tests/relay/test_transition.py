"""Rows of the alerts table as the relay reads them."""

from datetime import UTC, datetime

import pytest

from streaming.relay.notice import read_notice
from tests.relay.stage import START_MS, alert_row


def test_labels_are_the_identity_where_it_is_written_and_the_columns_of_an_older_row() -> None:
    written = read_notice(alert_row("m", "FIRING", START_MS, labels='{"cluster": "prod", "receiver": "pager"}'))
    assert written.labels == {"cluster": "prod", "receiver": "pager"}
    older = read_notice(alert_row("m", "FIRING", START_MS, labels=None))
    assert older.labels == {"cluster": "prod", "consumer_group": "billing", "topic": "orders"}


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "null"])
def test_evidence_that_cannot_be_read_is_empty(text: str | None) -> None:
    assert read_notice(alert_row("m", "FIRING", START_MS, evidence=text)).evidence == {}


def test_times_may_be_epoch_ms_or_datetimes_and_queues_may_be_missing() -> None:
    time = datetime.fromtimestamp(START_MS / 1000, UTC)
    of_times = read_notice(alert_row("m", "FIRING", START_MS, changed_at=time, started_at=time, queues=None))
    assert (of_times.changed_at_ms, of_times.started_at_ms, of_times.queues) == (START_MS, START_MS, ())


def test_steps_of_one_moment_are_in_the_order_of_a_life() -> None:
    states = ("RESOLVED", "PENDING", "RECOVERING", "FIRING")
    rows = [read_notice(alert_row("m", state, START_MS)) for state in states]
    assert [one.state for one in sorted(rows, key=lambda one: one.position)] == [
        "PENDING",
        "FIRING",
        "RECOVERING",
        "RESOLVED",
    ]
