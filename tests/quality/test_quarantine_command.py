"""`balancewatch quarantine`: list, show, repair, replay; each as people and as machines see it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schemas.events import HEARTBEATS, PULLS, ROUTES
from streaming.cli import app
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.quality.repairs import Place, Repairs
from streaming.warehouse.writer import append_rows
from tests.conftest import settings_for
from tests.row_writer import RowWriter
from tests.schemas.samples import GOOD

MINUTE = 60_000
PAST_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z"""


def event(topic: str, **fields: Any) -> bytes:
    known = json.loads(next(sample.value for sample in GOOD if sample.topic == topic))
    return json.dumps({**known, "event_time_ms": PAST_MS, **fields}).encode()


def rejected(topic: str, offset: int, raw: bytes | None, *reasons: str, minute: int = 0) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "raw": raw,
        "reasons": list(reasons),
        "ingest_time": PAST_MS + minute * MINUTE,
    }


ROWS = [
    rejected(PULLS, 1, event(PULLS, queue_id="x"), "wrong_type: queue_id"),
    rejected(PULLS, 2, event(PULLS, cluster=None), "missing_field: cluster", minute=5),
    rejected(PULLS, 3, event(PULLS), "unknown_queue: queue_id", minute=6),
    rejected(HEARTBEATS, 4, b"\xff\x1b[31m", "not_json", minute=7),
    rejected(HEARTBEATS, 5, None, "not_json", minute=8),
    rejected(ROUTES, 6, event(ROUTES, order_topic="no"), "wrong_type: order_topic", minute=9),
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each test has a copy of."""
    root = tmp_path_factory.mktemp("quarantined")
    append_rows(RowWriter(root), {"quarantine": ROWS}, "app", 0)
    return root


@pytest.fixture
def warehouse(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path, dirs_exist_ok=True)


def call(warehouse: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["quarantine", *arguments, "--warehouse", str(warehouse)])


def listed(warehouse: Path, *arguments: str) -> list[dict[str, Any]]:
    result = call(warehouse, "--format", "json", *arguments)
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["--topic", "*.pulls"], [1, 2, 3]),
        (["--reason", "wrong_type"], [1, 6]),
        (["--reason", "wrong_type: queue_id"], [1]),
        (["--reason", "*cluster"], [2]),
        (["--since", "2023-11-14T22:19:00Z"], [3, 4, 5, 6]),
        (["--until", "2023-11-14T22:13:19Z"], []),
        (["--limit", "2"], [5, 6]),
        (["--state", "REPLAYED"], []),
    ],
)
def test_what_is_listed(warehouse: Path, arguments: list[str], offsets: list[int]) -> None:
    assert [row["offset"] for row in listed(warehouse, *arguments)] == offsets


def worked_on(warehouse: Path) -> Path:
    """At minute 10 message 1 is repaired, at 20 it is claimed, at 21 Kafka has it; 2 is claimed at 30, without an end.

    So is 3 repaired, at 40, and a second 1 comes at 50, of a topic that was made anew.
    """

    def action(offset: int, of_minute: int, done: str, minute: int, **columns: Any) -> dict[str, Any]:
        at = {"ingest_time": PAST_MS + of_minute * MINUTE, "changed_at": PAST_MS + minute * MINUTE}
        return {"topic": PULLS, "partition": 0, "offset": offset, "action": done, "owner": "ann", **at, **columns}

    steps = [
        action(1, 0, "REPAIRED", 10, value=b"{}"),
        action(1, 0, "CLAIMED", 20, value=b"{}", claim_id="c1"),
        action(1, 0, "REPLAYED", 21, claim_id="c1", replayed_partition=0, replayed_offset=70),
        action(2, 5, "CLAIMED", 30, value=b"{}", claim_id="c2"),
        action(3, 6, "REPAIRED", 40, value=b"{}"),
    ]
    again = rejected(PULLS, 1, b"{", "not_json", minute=50)
    append_rows(RowWriter(warehouse), {"quarantine": [again], "repairs": steps}, "app", 1)
    return warehouse


def test_current_is_what_still_waits_for_somebody(warehouse: Path) -> None:
    """The message that is in Kafka again is left out; the one of the same offset in the topic made anew is not."""
    found = listed(worked_on(warehouse), "--topic", PULLS, "--current")
    assert [(row["offset"], row["state"]) for row in found] == [(2, "UNKNOWN"), (3, "REPAIRED"), (1, "WAITING")]
    only = listed(warehouse, "--current", "--state", "unknown", "--since", "2023-11-14T22:14:00Z")
    assert [row["offset"] for row in only] == [2]


@pytest.mark.parametrize(
    ("clock", "states"),
    [
        ("22:13:19", []),
        ("22:13:20", ["WAITING"]),
        ("22:23:19", ["WAITING", "WAITING", "WAITING"]),
        ("22:23:20", ["REPAIRED", "WAITING", "WAITING"]),
        ("22:33:20", ["UNKNOWN", "WAITING", "WAITING"]),
        ("22:34:20", ["REPLAYED", "WAITING", "WAITING"]),
        ("22:43:20", ["REPLAYED", "UNKNOWN", "WAITING"]),
        ("22:53:20", ["REPLAYED", "UNKNOWN", "REPAIRED"]),
        ("23:03:20", ["REPLAYED", "UNKNOWN", "REPAIRED", "WAITING"]),
    ],
)
def test_a_moment_has_what_had_come_as_it_stood_then(warehouse: Path, clock: str, states: list[str]) -> None:
    found = listed(worked_on(warehouse), "--topic", PULLS, "--at", f"2023-11-14T{clock}Z")
    assert [row["state"] for row in found] == states
    is_replayed = [row["replayed_offset"] == 70 for row in found]
    assert is_replayed == [state == "REPLAYED" for state in states]


def test_what_was_asked_and_that_there_are_more_is_noted_as_by_the_other_commands(warehouse: Path) -> None:
    more = "note: only the newest 2 rows; --limit 0 prints all"
    assert call(warehouse, "--limit", "2").stderr.splitlines() == [more]
    assert call(warehouse, "--limit", "2", "--format", "json").stderr.splitlines() == [more]
    assert call(warehouse, "--limit", "6").stderr == ""
    assert call(warehouse, "--limit", "0").stderr == ""
    asked = call(warehouse, "--at", "2023-11-14T22:20:00Z").stderr
    assert asked.startswith("note: as of 2023-11-14 22:20:00 UTC")
    assert call(warehouse, "--since", "2023-11-14T22:20:00Z").stderr.startswith("note: from 2023-11-14 22:20:00 UTC")


@pytest.mark.parametrize("reason", ["wrong_type: queues[0].broker_name", "wrong_type: queues*", "wrong_type"])
def test_a_reason_that_was_copied_from_the_list_finds_its_message(tmp_path: Path, reason: str) -> None:
    """Though [0] is also a glob, of the character 0."""
    said = rejected(ROUTES, 7, event(ROUTES), "wrong_type: queues[0].broker_name")
    other = rejected(ROUTES, 8, event(ROUTES), "missing_field: cluster")
    append_rows(RowWriter(tmp_path), {"quarantine": [said, other]}, "app", 0)
    assert [row["offset"] for row in listed(tmp_path, "--reason", reason)] == [7]


def test_a_table_fits_the_terminal_and_obeys_nothing(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in ([], ["show", HEARTBEATS, "0", "4"]):
        shown = call(warehouse, *arguments).stdout
        assert max(map(len, shown.splitlines())) <= 80
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        ((PULLS, "1"), ["WAITING", "wrong_type: queue_id", "rejects it for wrong_type: queue_id", '"queue_id": "x"']),
        ((PULLS, "3"), ["accepts it; it was rejected by its topic's route at the time"]),
        ((HEARTBEATS, "4"), ["6 bytes, not JSON:", "00000000  ff 1b 5b 33 31 6d"]),
        ((HEARTBEATS, "5"), ["no value"]),
    ],
)
def test_what_is_shown_of_one(warehouse: Path, place: tuple[str, str], lines: list[str]) -> None:
    shown = call(warehouse, "show", place[0], "0", place[1]).stdout
    assert all(line in shown for line in lines)


def test_its_bytes_are_given_as_they_are(warehouse: Path) -> None:
    result = call(warehouse, "show", HEARTBEATS, "0", "4", "--raw")
    assert result.stdout_bytes == b"\xff\x1b[31m"


def test_one_is_repaired_and_shown_beside_what_it_was(warehouse: Path) -> None:
    assert call(warehouse, "repair", PULLS, "0", "1", "--set", "queue_id=3").exit_code == 0
    shown = call(warehouse, "show", PULLS, "0", "1").stdout
    assert '"queue_id": "x"' in shown
    assert '"queue_id": 3' in shown.partition("repaired:")[2]
    assert [row["state"] for row in listed(warehouse, "--topic", PULLS)] == ["REPAIRED", "WAITING", "WAITING"]


def test_a_second_repair_goes_on_from_the_first(warehouse: Path) -> None:
    call(warehouse, "repair", PULLS, "0", "1", "--set", "queue_id=3")
    call(warehouse, "repair", PULLS, "0", "1", "--set", "pull_status=FOUND")
    repaired = call(warehouse, "show", PULLS, "0", "1").stdout.partition("repaired:")[2]
    assert json.loads(repaired)["queue_id"] == 3


def test_all_that_match_are_repaired_at_once_and_what_stays_bad_is_reported(warehouse: Path) -> None:
    result = call(warehouse, "repair", "--topic", PULLS, "--set", 'cluster="prod"')
    assert "2 of 3 repaired" in result.stdout
    assert [row["state"] for row in listed(warehouse, "--topic", PULLS)] == ["WAITING", "REPAIRED", "REPAIRED"]


def test_a_dry_run_keeps_nothing(warehouse: Path) -> None:
    assert (
        "1 of 1 would be repaired"
        in call(warehouse, "repair", PULLS, "0", "1", "--set", "queue_id=3", "--dry-run").stdout
    )
    assert {row["state"] for row in listed(warehouse)} == {"WAITING"}


def test_what_is_no_json_is_repaired_by_a_file(warehouse: Path, tmp_path: Path) -> None:
    file = tmp_path / "fixed.json"
    file.write_bytes(event(HEARTBEATS))
    assert call(warehouse, "repair", HEARTBEATS, "0", "4", "--file", str(file)).exit_code == 0
    assert listed(warehouse, "--topic", HEARTBEATS)[0]["state"] == "REPAIRED"


def test_an_editor_changes_one_and_its_text_is_not_lost(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/\\"x\\"/$NUMBER/" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setenv("NUMBER", "-7")
    refused = call(warehouse, "repair", PULLS, "0", "1", "--edit")
    kept = tmp_path / f"{PULLS}-0-1.json"
    assert (refused.exit_code, kept.name in refused.stderr) == (1, True)
    assert json.loads(kept.read_bytes())["queue_id"] == -7
    monkeypatch.setenv("NUMBER", "7")
    assert call(warehouse, "repair", PULLS, "0", "1", "--edit").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["show", PULLS, "0", "99"], 1, f"{PULLS}-0@99 is not in quarantine"),
        (["repair", PULLS, "0", "1"], 2, "give one of --set/--unset, --file or --edit"),
        (["repair", "--set", "a=1"], 2, "give TOPIC PARTITION OFFSET, or a filter"),
        (["repair", PULLS, "--set", "a=1"], 2, "give either TOPIC PARTITION OFFSET, or filters"),
        (["repair", PULLS, "0", "1", "--topic", "x", "--set", "a=1"], 2, "give either TOPIC PARTITION OFFSET"),
        (["repair", "--topic", "*", "--edit"], 2, "--file and --edit are for one message"),
        (["repair", "--topic", "*", "--set", "a"], 2, "--set 'a': give FIELD=VALUE"),
        (["repair", PULLS, "0", "1", "--set", "queue_id=-1"], 1, "would still be rejected for unknown_queue: queue_id"),
        (["repair", PULLS, "0", "1", "--file", "no.json"], 2, "--file no.json: No such file or directory"),
        (["repair", HEARTBEATS, "0", "4", "--set", "a=1"], 2, "give a complete event with --file"),
        (["repair", "--topic", "none", "--set", "a=1"], 1, "no quarantined message matches"),
        (["repair", "--since", "soon", "--set", "a=1"], 2, "--since 'soon' is not a time"),
        (["repair", PULLS, "0", "1", "--set", "queue_id=3", "--owner", " "], 2, "--owner ' ': give 1 to 255"),
        (["replay", "--topic", PULLS], 2, "kafka.bootstrap_servers is empty"),
        (["find", PULLS, "0", "1", "--bootstrap-servers", "x:1"], 1, "is WAITING, not UNKNOWN"),
        (["--reason", ""], 2, "--reason '': give 1 to"),
        (["replay", "--reason", "", "--dry-run"], 2, "--reason '': give 1 to"),
        (["repair", "--topic", "", "--set", "a=1"], 2, "--topic '': give 1 to"),
        (["repair", "--since", "1h", "--until", "2h", "--set", "a=1"], 2, "--since 1h is not before --until 2h"),
        (["--state", "GONE"], 2, "--state 'GONE': choose one of WAITING"),
        (
            ["--current", "--state", "REPLAYED"],
            2,
            "'REPLAYED': nearest: REPAIRED; choose one of WAITING, REPAIRED, UNKNOWN",
        ),
        (["--at", "1h", "--current"], 2, "--at excludes --since, --until and --current"),
        (["--at", "2099-01-01"], 2, "--at 2099-01-01 is in the future"),
    ],
)
def test_what_cannot_work_ends_in_a_sentence_that_names_it(
    warehouse: Path, arguments: list[str], code: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(warehouse)
    result = call(warehouse, *arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_dry_replay_says_what_would_go_and_what_not(warehouse: Path) -> None:
    call(warehouse, "repair", PULLS, "0", "1", "--set", "queue_id=3")
    call(warehouse, "repair", ROUTES, "0", "6", "--unset", "order_topic")
    Repairs(warehouse).claim({Place(PULLS, 0, 2, PAST_MS + 5 * MINUTE): b"{}"}, "bob", PAST_MS)
    shown = call(warehouse, "replay", "--all", "--dry-run").stdout
    assert "1 would be published." in shown
    assert "1 left out, UNKNOWN" in shown
    assert "2 left out, rejected by today's contract" in shown
    assert "1 left out, not repaired; today's contract accepts them" in shown
    assert "1 left out, too old: a newer route exists" in shown
    with_all = call(warehouse, "replay", "--all", "--dry-run", "--unchanged", "--old").stdout
    assert "3 would be published." in with_all


@pytest.mark.real
def test_repaired_messages_are_published_once_and_only_once(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    settings = settings_for(kafka, tmp_path)
    warehouse, servers = settings.paths.warehouse, settings.kafka.bootstrap_servers
    append_rows(RowWriter(warehouse), {"quarantine": ROWS}, "app", 0)
    call(warehouse, "repair", PULLS, "0", "1", "--set", "queue_id=3")
    consumer = open_consumer(settings.kafka)
    before = read_spans(consumer, [PULLS])
    first = call(warehouse, "replay", "--topic", PULLS, "--bootstrap-servers", servers)
    assert (first.exit_code, "1 published." in first.stdout) == (0, True)
    second = call(warehouse, "replay", PULLS, "0", "1", "--bootstrap-servers", servers)
    assert (second.exit_code, "Nothing to publish." in second.stdout) == (0, True)
    after = read_spans(consumer, [PULLS])
    consumer.close()
    assert sum(span.end for span in after.values()) - sum(span.end for span in before.values()) == 1
    row = listed(warehouse, "--state", "REPLAYED")[0]
    assert (row["offset"], row["replayed_offset"]) == (1, after[PULLS, row["replayed_partition"]].end - 1)
