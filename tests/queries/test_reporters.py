"""Brokers that report each pull, until their agent is removed."""

from streaming.queries.state import ClusterEntry
from streaming.queries.tick import BELIEVED_MS, note_report, reporting

AT = 1_700_000_000_000


def test_a_broker_is_believed_until_others_report_pulls_there_and_again_once_it_reports_one() -> None:
    entry = ClusterEntry()
    note_report(entry, "broker-a", AT)
    note_report(entry, "broker-a", AT + 900_000)
    assert reporting(entry, AT + 2_000_000) == ({"broker-a": AT}, {}), "no pull of anybody ends nothing"
    entry.watch.pulls.note("broker-a", "client", AT + 900_000 + BELIEVED_MS)
    assert reporting(entry, AT + 960_000) == ({"broker-a": AT}, {})
    entry.watch.pulls.note("broker-a", "client", AT + 900_001 + BELIEVED_MS)
    assert reporting(entry, AT + 961_000) == ({}, {"broker-a": AT + 900_000})
    note_report(entry, "broker-a", AT + 3_000_000)
    assert reporting(entry, AT + 3_000_000) == ({"broker-a": AT + 3_000_000}, {})


def test_offsets_that_others_report_end_the_belief_too() -> None:
    entry = ClusterEntry()
    note_report(entry, "broker-a", AT)
    entry.watch.offsets_ms["broker-a"] = AT + BELIEVED_MS
    assert reporting(entry, AT + 70_000) == ({"broker-a": AT}, {})
    entry.watch.offsets_ms["broker-a"] = AT + BELIEVED_MS + 1
    assert reporting(entry, AT + 70_000) == ({}, {"broker-a": AT})
