"""What each page reads: the value that it draws, without a component."""

from pathlib import Path

import pytest

from streaming.board.pages import alerts, brokers, group, groups, history, incident, overview, quality
from streaming.board.url import AskedError
from tests.board.tables import MINUTE, NOW_MS, alert, assignment, view_of, write


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    health = {"cluster": "prod", "broker_name": "broker-a", "unavailable_producers": 2, "producers": 3}
    refused = {"topic": "rocketmq.pulls", "partition": 0, "offset": 7, "raw": b"{", "reasons": ["not_json"]}
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [
                alert("cause", kind="duplicate_client_id", client_id="c@1"),
                alert("effect", inhibited_by="cause"),
                alert("over", "RESOLVED", ago_ms=2 * MINUTE),
            ],
            "assignments": [
                assignment(0, "UNOWNED", planned_owner=None, observed_owners=[]),
                assignment(1, "OK", changed_at=NOW_MS - 3 * MINUTE),
                assignment(0, "OK", consumer_group="calm", topic="fees"),
            ],
            "broker_health": [{**health, "changed_at": NOW_MS - 4 * MINUTE, "unavailable_until": NOW_MS + MINUTE}],
            "quarantine": [{**refused, "ingest_time": NOW_MS - MINUTE}],
        },
    )


def test_the_overview_reads_what_fires_and_how_old_each_table_is(warehouse: Path) -> None:
    page = overview.read(view_of(warehouse))
    assert [one.incident_id for one in page.trouble.firing] == ["cause"]
    assert (page.trouble.inhibited_count, page.trouble.resolved_lately) == (1, 1)
    assert ([one.consumer_group for one in page.groups], page.troubled) == (["billing"], 1)
    assert page.newest_ms == NOW_MS - MINUTE
    assert {one.name: one.newest_ms for one in page.ages}["broker_health"] == NOW_MS - 4 * MINUTE


def test_alerts_read_incidents_open_ones_first_with_what_each_went_through(warehouse: Path) -> None:
    page = alerts.read(view_of(warehouse, since="1h"))
    assert [one.incident_id for one in page.incidents.items] == ["cause", "effect", "over"]
    assert (page.since_ms, page.is_counted, page.bins) == (60 * MINUTE, False, ())
    assert (page.from_ms, page.until_ms) == (NOW_MS - 6 * MINUTE - 30_000, NOW_MS), "what is in it, not the hour"
    assert {name: [step.state for step in steps] for name, steps in page.steps.items()} == {
        "cause": ["FIRING"],
        "effect": ["FIRING"],
        "over": ["RESOLVED"],
    }
    explained = alerts.read(view_of(warehouse, inhibited="yes"))
    assert ([one.incident_id for one in explained.incidents.items], explained.asked) == (
        ["effect"],
        {"inhibited": "yes"},
    )


def test_groups_read_the_worst_first_and_those_whose_name_has_the_text(warehouse: Path) -> None:
    page = groups.read(view_of(warehouse))
    assert [(one.consumer_group, one.worst) for one in page.shown.items] == [("billing", "UNOWNED"), ("calm", "OK")]
    other = groups.read(view_of(warehouse, q="zzz"))
    assert (other.chosen, other.is_empty, other.clusters) == ([], False, ["prod"])


def test_a_group_reads_its_queues_filtered_and_its_twins(warehouse: Path) -> None:
    page = group.read(view_of(warehouse, group="billing", verdict="UNOWNED"))
    assert ([one.name for one in page.shown.items], dict(page.of_topic)) == (["broker-a:0"], {"UNOWNED": 1, "OK": 1})
    assert [one.queue.name for one in page.matrix.lines] == ["broker-a:0"]
    assert page.group.twins() == {"c@1"}
    with pytest.raises(AskedError, match="verdict = 'ODD'"):
        group.read(view_of(warehouse, group="billing", verdict="ODD"))


def test_a_history_reads_the_time_around_a_moment(warehouse: Path) -> None:
    page = history.read(view_of(warehouse, group="billing", since="1h", at="2m"))
    assert page.times.from_ms == NOW_MS - 6 * MINUTE - 30_000, "of the hour, the part in which something is known"
    assert (page.at_ms, [one.name for one in page.queues]) == (NOW_MS - 2 * MINUTE, ["broker-a:1"])
    assert {span.verdict for span in page.times.spans} == {"UNOWNED", "OK"}
    assert page.kept == {"group": "billing", "since": "1h"}


def test_brokers_read_who_is_avoided_and_since_when(warehouse: Path) -> None:
    page = brokers.read(view_of(warehouse, since="1h"))
    (broker,) = page.listed.items
    assert (broker.broker_name, broker.avoiding, broker.producers) == ("broker-a", 2, 3)
    assert [one.start_ms for one in broker.intervals] == [NOW_MS - 4 * MINUTE]
    assert (page.from_ms, page.until_ms) == (NOW_MS - 4 * MINUTE - 30_000, NOW_MS), "not the hour"
    assert (page.clusters, page.is_cut, page.is_stale) == (["prod"], False, False)


def test_quality_reads_what_was_quarantined_in_the_time(warehouse: Path) -> None:
    page = quality.read(view_of(warehouse, since="1h"))
    assert [(one.reason, one.total) for one in page.rejected.shown] == [("not_json", 1)]
    assert [one.offset for one in page.newest] == [7]
    assert (page.failing, page.suites.number) == ([], 0)


def test_an_incident_reads_its_story_and_its_events_oldest_first(warehouse: Path) -> None:
    page = incident.read(view_of(warehouse, id="cause"))
    assert (page.story.kind, page.story.inhibits_by_kind) == ("duplicate_client_id", {"starved_queue": 1})
    assert [event.at_ms for event in page.events] == sorted(event.at_ms for event in page.events)
    assert "FIRING" in {event.state for event in page.events}
    with pytest.raises(AskedError, match="id is missing"):
        incident.read(view_of(warehouse))
