"""Replay: a recorded log under the rules in force and under others, beside what was really sent; nothing is written."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.relay.notice import record_of
from streaming.replay import replay_command
from streaming.replay.replay_command import (
    Asked,
    Pages,
    RecordedError,
    Row,
    add_page,
    compare,
    count,
    read_events,
    read_kafka,
    read_pages,
)
from streaming.replay.replay_command import work_through as replay
from streaming.replay.stream import Stream
from streaming.simulator.play import play
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.conftest import settings_for
from tests.relay.notices import notice
from tests.simulator.modelled import MINUTE, START, Events, run
from tests.support.rules import default_rules
from udfs.alerts.rulebook import Override, Rulebook

EVERYTHING = Asked(START, START + 60 * MINUTE)


def until(to_ms: int) -> Asked:
    return Asked(START, to_ms)


LATE = {"kinds": {"*": {"pending_ms": 3_600_000}}}


@pytest.fixture(scope="module")
def events() -> Events:
    """Twins come and go: one page, and two alerts that it explains."""
    return run("twins", seed=5, duration_ms=8 * MINUTE)[1]


@pytest.fixture(scope="module")
def night(events: Events, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in a file."""
    path = tmp_path_factory.mktemp("night") / "night.jsonl"
    path.write_text("".join(json.dumps({"topic": topic, "event": event}) + "\n" for topic, event in events))
    return path


@pytest.fixture(scope="module")
def warehouse(night: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the service wrote of it at the time, by the default rules."""
    path = tmp_path_factory.mktemp("warehouse")
    rows = {"alerts": alerts_of(night)}
    append_rows(DeltalakeWriter(path), rows, "app", 0)
    return path


def test_what_the_relay_says_of_its_receivers_is_no_page_of_the_rules(warehouse: Path, tmp_path: Path) -> None:
    row = dict.fromkeys(("alert_id", "incident_id", "cause", "cluster", "summary", "advice"), "x")
    times = {"started_at": START, "changed_at": START}
    own = {**row, **times, "kind": "delivery_failed", "severity": "error", "state": "FIRING", "evidence": "{}"}
    append_rows(DeltalakeWriter(tmp_path), {"alerts": [own]}, "app", 0)
    assert read_pages(tmp_path, until(START + MINUTE)) == []


def alerts_of(night: Path, rulebook: Rulebook | None = None) -> list[dict[str, Any]]:
    stream = Stream(rulebook or Rulebook(default_rules()))
    return [row for part in read_events(night) for row in stream.work_through(part).get("alerts", [])]


def pages_of(night: Path, rulebook: Rulebook | None = None, asked: Asked = EVERYTHING) -> list[Row]:
    return replay(read_events(night), rulebook or Rulebook(default_rules()), asked).pages


def kinds_and_times(pages: list[Row]) -> list[tuple[str, int]]:
    return [(one["kind"], one["changed_at"]) for one in pages]


def command(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["replay", *arguments])
    assert result.exit_code == 0, result.output
    return result


def report(night: Path, warehouse: Path, *arguments: str) -> dict[str, Any]:
    result = command(
        "--events", str(night), "--warehouse", str(warehouse), "--since", "2023-11-14T22:13:20Z",
        "--until", "2023-11-15T00:00Z", "--format", "json", *arguments,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def page(alert_id: str, started_at: int, changed_at: int, ended_at: int | None) -> Row:
    times = {"started_at": started_at, "changed_at": changed_at, "ended_at": ended_at}
    return {"alert_id": alert_id, "incident_id": f"{alert_id}-{started_at}", **times}


def test_the_rules_in_force_page_as_they_did(night: Path, warehouse: Path) -> None:
    found = report(night, warehouse)
    assert found["counts"] == {"same": 1, "new": 0, "gone": 0}
    (same,) = found["pages"]
    assert same["kind"] == "duplicate_client_id"
    assert same["replayed_at"] == same["sent_at"]


def test_a_page_that_changed_rules_would_not_have_sent_is_gone(night: Path, warehouse: Path, tmp_path: Path) -> None:
    rules = tmp_path / "late.toml"
    rules.write_text('[kinds]\n"*" = { pending_ms = 3_600_000 }\n')
    found = report(night, warehouse, "--rules", str(rules))
    assert found["counts"] == {"same": 0, "new": 0, "gone": 1}
    assert found["pages"][0]["replayed_at"] is None


def test_a_page_that_nobody_was_sent_is_new(night: Path, tmp_path: Path) -> None:
    append_rows(DeltalakeWriter(tmp_path), {}, "app", 0)
    assert report(night, tmp_path)["counts"] == {"same": 0, "new": 1, "gone": 0}


def test_without_an_alerts_table_it_says_so_and_lists_the_pages(night: Path, tmp_path: Path) -> None:
    since = ["--since", "2023-11-14T22:13:20Z", "--until", "2023-11-15T00:00Z"]
    result = command("--events", str(night), "--warehouse", str(tmp_path / "none"), *since)
    assert "no pages to compare with" in result.stderr
    assert "1 new" in result.stdout
    assert "duplicate_client_id" in result.stdout
    assert not (tmp_path / "none").exists()


def test_a_replay_writes_nothing(night: Path, warehouse: Path) -> None:
    before = sorted(path.stat().st_mtime_ns for path in warehouse.rglob("*"))
    report(night, warehouse, "--all")
    assert sorted(path.stat().st_mtime_ns for path in warehouse.rglob("*")) == before


def test_only_pages_of_the_span_are_listed_and_what_came_before_warms_up(night: Path, warehouse: Path) -> None:
    (reported,) = pages_of(night)
    after = Asked(reported["changed_at"] + 1, START + 60 * MINUTE)
    assert compare(pages_of(night, asked=after), [reported], after.from_ms, after.to_ms) == []


def test_a_file_ends_with_its_last_event(night: Path, warehouse: Path, tmp_path: Path) -> None:
    """--until is that event by default, and spans count back from it; alerts of a later day are not gone."""
    later = [{**row, "alert_id": f"{row['alert_id']}-later", "incident_id": f"{row['incident_id']}-later",
              "started_at": row["started_at"] + 86_400_000, "changed_at": row["changed_at"] + 86_400_000}
             for row in alerts_of(night)]  # fmt: skip
    append_rows(DeltalakeWriter(tmp_path), {"alerts": [*alerts_of(night), *later]}, "app", 0)
    arguments = ("--events", str(night), "--warehouse", str(tmp_path), "--format", "json")
    for since in ("2023-11-14T22:13:20Z", "10m"):
        found = json.loads(command(*arguments, "--since", since).stdout)
        assert found["counts"] == {"same": 1, "new": 0, "gone": 0}
        assert found["until"] == "2023-11-14T22:21:20.001Z"


def test_the_filters_are_for_the_alerts_and_not_for_the_events(night: Path, warehouse: Path) -> None:
    cluster = report(night, warehouse)["pages"][0]["cluster"]
    assert report(night, warehouse, "--cluster", cluster)["counts"]["same"] == 1
    assert report(night, warehouse, "--cluster", "other")["counts"] == {"same": 0, "new": 0, "gone": 0}
    assert report(night, warehouse, "--group", "other")["counts"] == {"same": 0, "new": 0, "gone": 0}


def test_all_prints_suppressed_transitions_too(night: Path, warehouse: Path) -> None:
    rows: Any = report(night, warehouse, "--all")
    assert {row["kind"] for row in rows} > {"duplicate_client_id", "starved_queue"}
    assert rows[0]["changed_at"].endswith("Z")


def test_csv_has_a_line_a_page(night: Path, warehouse: Path) -> None:
    since = ["--since", "2023-11-14T22:13:20Z", "--until", "2023-11-15T00:00Z", "--format", "csv"]
    lines = command("--events", str(night), "--warehouse", str(warehouse), *since).stdout.strip().splitlines()
    assert [line.split(",")[0] for line in lines] == ["outcome", "same"]


def test_an_override_changes_the_pages_of_its_groups_only(night: Path) -> None:
    group = str(pages_of(night)[0]["consumer_group"])
    late = Override("late", consumer_group=group, kinds=LATE["kinds"])
    other = Override("late", consumer_group="other", kinds=LATE["kinds"])
    assert pages_of(night, Rulebook(default_rules(), [late])) == []
    assert pages_of(night, Rulebook(default_rules(), [other])) == pages_of(night)


def test_small_slices_give_the_same_alerts(night: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = alerts_of(night)
    monkeypatch.setattr(replay_command, "AT_MOST", 100)
    assert len(list(read_events(night))) > 5
    assert sorted(map(str, alerts_of(night))) == sorted(map(str, whole))


def test_a_slice_is_as_long_as_a_micro_batch() -> None:
    """A pull that is reported two minutes late would otherwise change the verdicts in between."""
    times = [0, 10, 5_000, 5_001, 5_001, 9_000, 120_000]
    found = list(replay_command.slices_of((time_ms, time_ms) for time_ms in times))
    assert found == [[0, 10, 5_000], [5_001, 5_001, 9_000], [120_000]]


def test_pages_of_one_subject_at_overlapping_times_are_the_same() -> None:
    reported = [page("a", 0, 10, 20), page("a", 100, 110, None), page("b", 0, 5, 6)]
    replayed = [page("a", 5, 30, 40), page("a", 90, 120, None), page("c", 0, 50, None)]
    outcomes = compare(replayed, reported, 0, 1000)
    assert [(one["outcome"], one["alert_id"], one["changed_at"]) for one in outcomes] == [
        ("gone", "b", 5),
        ("same", "a", 30),
        ("new", "c", 50),
        ("same", "a", 120),
    ]
    assert count(outcomes) == {"same": 2, "new": 1, "gone": 1}


def test_pages_of_one_subject_at_different_times_are_not_the_same() -> None:
    outcomes = compare([page("a", 50, 60, 70)], [page("a", 0, 10, 20)], 0, 1000)
    assert [one["outcome"] for one in outcomes] == ["gone", "new"]


INCIDENT = {
    name: name for name in ("alert_id", "incident_id", "kind", "cluster", "consumer_group", "topic", "summary")
} | {"severity": "error", "inhibited_by": None, "started_at": 0}


def test_an_incident_pages_once_it_is_neither_inhibited_nor_info() -> None:
    pages: Pages = {}
    for at, changes in enumerate(
        (
            {"state": "PENDING"},
            {"state": "FIRING", "inhibited_by": "x"},
            {"state": "FIRING", "severity": "info"},
            {"state": "FIRING"},
            {"state": "FIRING", "severity": "critical"},
        ),
        1,
    ):
        assert [one["changed_at"] for one in pages.values()] == ([4] if at > 4 else [])
        add_page(pages, {**INCIDENT, **changes, "changed_at": at})


def test_an_incident_that_never_paged_is_dropped_when_it_ends() -> None:
    pages: Pages = {}
    for at, state in ((1, "PENDING"), (2, "RESOLVED")):
        add_page(pages, {**INCIDENT, "state": state, "changed_at": at})
    assert pages == {}


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("{", "line 2"),
        ('{"topic": "x", "event": {"event_time_ms": 1}}', "line 2"),
        ('{"topic": "rocketmq.pulls"}', "line 2"),
    ],
    ids=["json", "topic", "event"],
)
def test_a_line_that_is_no_event_is_reported_by_its_number(tmp_path: Path, line: str, reported: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"topic": "rocketmq.pulls", "event": {"event_time_ms": 1}}\n' + line + "\n")
    with pytest.raises(RecordedError, match=reported):
        list(read_events(path))


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--since", "soon"], "--since 'soon' is not a time"),
        (["--since", "1h", "--until", "2h"], "--since 1h is not before --until 2h"),
        (["--format", "xml"], "--output 'xml': choose table, json or csv"),
        (["--rules", "/nowhere.toml"], "rules.file = '/nowhere.toml': "),
        ([], "kafka.bootstrap_servers is empty"),
    ],
    ids=["since", "order", "format", "rules", "kafka"],
)
def test_a_wrong_argument_is_reported_and_ends_with_2(arguments: list[str], reported: str) -> None:
    result = CliRunner().invoke(app, ["replay", *arguments])
    assert result.exit_code == 2
    assert reported in result.stderr


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["replay", "--events", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "No such file" in result.stderr


@pytest.mark.real
def test_what_kafka_holds_gives_the_pages_that_the_events_give(
    kafka: EmbeddedKafka, events: Events, night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(kafka, tmp_path)
    began_ms = int(time.time() * 1000)  # what other tests left in Kafka is older
    with Publisher(settings.kafka) as publisher:
        play(events, publisher, speed=None, stop=threading.Event())
    monkeypatch.setattr(replay_command, "AT_MOST", 500)
    slices: list[list[Any]] = list(read_kafka(settings.kafka, began_ms, 2**53))
    messages = [message for part in slices for message in part]
    assert len(slices) > 2
    assert [one["ingest_time_ms"] for one in messages] == sorted(one["ingest_time_ms"] for one in messages)
    assert len({(one["topic"], one["partition"], one["offset"]) for one in messages}) == len(messages) == len(events)
    cluster = events[0][1]["cluster"]
    asked = Asked(START, START + 60 * MINUTE, cluster)
    replayed = replay(slices, Rulebook(default_rules()), asked)
    assert kinds_and_times(replayed.pages) == kinds_and_times(pages_of(night))
    middle = messages[len(messages) // 2]["ingest_time_ms"]
    later = [one for part in read_kafka(settings.kafka, middle, 2**53) for one in part]
    earlier = [one for part in read_kafka(settings.kafka, began_ms, middle) for one in part]
    assert len(earlier) + len(later) == len(messages)


def test_pages_are_read_from_the_table_up_to_the_end_of_the_span(warehouse: Path) -> None:
    (reported,) = read_pages(warehouse, until(START + 60 * MINUTE))
    assert reported["ended_at"] is not None
    paged_ms = reported["changed_at"]
    (still_open,) = read_pages(warehouse, Asked(START, paged_ms + 1, reported["cluster"], reported["consumer_group"]))
    assert still_open["ended_at"] is None
    assert read_pages(warehouse, until(paged_ms)) == []


def test_what_nobody_was_reported_is_no_page_that_was_sent(night: Path, tmp_path: Path) -> None:
    alerts = alerts_of(night)
    append_rows(DeltalakeWriter(tmp_path), {"alerts": alerts}, "app", 0)
    (reported,) = read_pages(tmp_path, until(START + 60 * MINUTE))
    row = notice(incident_id=reported["incident_id"], kind=reported["kind"], changed_at_ms=START)
    silenced = dict(record_of(row, "SILENCED", START))
    append_rows(DeltalakeWriter(tmp_path), {"alert_deliveries": [silenced]}, "app", 1)
    assert read_pages(tmp_path, until(START + 60 * MINUTE)) == []
    due = dict(record_of(row, "PENDING", START, receiver="pager"))
    append_rows(DeltalakeWriter(tmp_path), {"alert_deliveries": [due]}, "app", 2)
    assert len(read_pages(tmp_path, until(START + 60 * MINUTE))) == 1


def test_the_canary_is_listed_only_where_its_cluster_is_asked_for() -> None:
    row = {"cluster": "balancewatch_canary", "consumer_group": "canary"}
    assert not EVERYTHING.is_for(row)
    assert Asked(START, START + MINUTE, cluster="balancewatch_canary").is_for(row)
