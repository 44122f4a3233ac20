"""`balancewatch quarantine`: list, show and replay, as text and as JSON; changes by --set; publishing at least once."""

import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conf.settings import Settings
from schemas.decode import decode
from schemas.events import HEARTBEATS, PULLS, ROUTES
from streaming.cli import app
from streaming.history.query_options import parse_options
from streaming.kafka_io.consumer import open_consumer, read_spans
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import PublishError
from streaming.quality import quarantine_command
from streaming.quality.quarantine_command import parse_sets, prepare, publish_again, read_quarantined, set_fields
from streaming.warehouse.writer import append_rows
from tests.conftest import settings_for
from tests.schemas.samples import GOOD, INGEST_TIME_MS
from tests.support.row_writer import RowWriter

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
    """A warehouse that each test copies."""
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
def test_filters_select_messages(filled: Path, arguments: list[str], offsets: list[int]) -> None:
    assert [row["offset"] for row in listed(filled, *arguments)] == offsets


@pytest.fixture(scope="module")
def replayed(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At minute 21 message 1 is replayed, and at minute 50 a second message 1 comes, of a recreated topic."""
    warehouse = shutil.copytree(filled, tmp_path_factory.mktemp("replayed"), dirs_exist_ok=True)
    action = {"topic": PULLS, "partition": 0, "offset": 1, "action": "REPLAYED", "owner": "ann"}
    action |= {"ingest_time": PAST_MS, "changed_at": PAST_MS + 21 * MINUTE, "value": b"{}"}
    action |= {"replayed_partition": 0, "replayed_offset": 70}
    again = rejected(PULLS, 1, b"{", "not_json", minute=50)
    append_rows(RowWriter(warehouse), {"quarantine": [again], "repairs": [action]}, "app", 1)
    return warehouse


def test_current_lists_messages_that_were_not_replayed(replayed: Path) -> None:
    """The replayed message is left out, the message at the same offset of the recreated topic is not."""
    found = listed(replayed, "--topic", PULLS, "--current")
    assert [(row["offset"], row["state"]) for row in found] == [(2, "WAITING"), (3, "WAITING"), (1, "WAITING")]
    assert [row["offset"] for row in listed(replayed, "--current", "--state", "REPLAYED")] == [1]
    only = listed(replayed, "--state", "replayed")
    assert [(row["offset"], row["replayed_offset"]) for row in only] == [(1, 70)]


@pytest.mark.parametrize(
    ("clock", "states"),
    [
        ("22:13:19", []),
        ("22:13:20", ["WAITING"]),
        ("22:34:19", ["WAITING", "WAITING", "WAITING"]),
        ("22:34:20", ["REPLAYED", "WAITING", "WAITING"]),
        ("23:03:20", ["REPLAYED", "WAITING", "WAITING", "WAITING"]),
    ],
)
def test_at_lists_messages_and_states_of_that_time(replayed: Path, clock: str, states: list[str]) -> None:
    found = listed(replayed, "--topic", PULLS, "--at", f"2023-11-14T{clock}Z")
    assert [row["state"] for row in found] == states
    assert [row["replayed_offset"] == 70 for row in found] == [state == "REPLAYED" for state in states]


def test_a_reason_copied_from_the_list_finds_its_message(tmp_path: Path) -> None:
    """[0] is also a glob, of the character 0."""
    said = rejected(ROUTES, 7, event(ROUTES), "wrong_type: queues[0].broker_name")
    other = rejected(ROUTES, 8, event(ROUTES), "missing_field: cluster")
    append_rows(RowWriter(tmp_path), {"quarantine": [said, other]}, "app", 0)
    for reason in ("wrong_type: queues[0].broker_name", "wrong_type: queues*", "wrong_type"):
        assert [row["offset"] for row in listed(tmp_path, "--reason", reason)] == [7]


def test_a_table_fits_the_terminal_without_its_controls(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in ([], ["show", HEARTBEATS, "0", "4"]):
        shown = call(filled, *arguments).stdout
        assert max(map(len, shown.splitlines())) <= 80
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        ((PULLS, "1"), ["WAITING", "wrong_type: queue_id", "rejects it for wrong_type: queue_id", '"queue_id": "x"']),
        ((PULLS, "3"), ["accepts it; it was rejected by its topic's route at the time"]),
        ((HEARTBEATS, "4"), ["6 bytes, not JSON:", "\\xff\\x1b[31m"]),
        ((HEARTBEATS, "5"), ["no value"]),
    ],
)
def test_show_prints_state_reasons_and_content(filled: Path, place: tuple[str, str], lines: list[str]) -> None:
    shown = call(filled, "show", place[0], "0", place[1]).stdout
    assert all(line in shown for line in lines)


def test_raw_writes_the_unchanged_bytes(filled: Path) -> None:
    result = call(filled, "show", HEARTBEATS, "0", "4", "--raw")
    assert result.stdout_bytes == b"\xff\x1b[31m"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["show", PULLS, "0", "99"], 1, f"{PULLS}-0@99 is not in quarantine"),
        (["replay", "--dry-run"], 2, "give TOPIC PARTITION OFFSET, or a filter"),
        (["replay", PULLS, "--set", "a=1", "--dry-run"], 2, "give either TOPIC PARTITION OFFSET, or filters"),
        (["replay", PULLS, "0", "1", "--topic", "x", "--dry-run"], 2, "give either TOPIC PARTITION OFFSET"),
        (["replay", "--topic", "*", "--set", "a", "--dry-run"], 2, "--set 'a': give FIELD=VALUE"),
        (["replay", PULLS, "0", "1", "--dry-run"], 1, "nothing to publish"),
        (["replay", "--topic", "none", "--dry-run"], 1, "no quarantined message matches"),
        (["replay", "--since", "soon", "--dry-run"], 2, "--since 'soon' is not a time"),
        (["replay", PULLS, "0", "3", "--owner", " ", "--bootstrap-servers", "x:1"], 2, "--owner ' ': give 1 to 255"),
        (["replay", "--topic", PULLS], 2, "kafka.bootstrap_servers is empty"),
        (["replay", "--reason", "", "--dry-run"], 2, "--reason '': give 1 to"),
        (["replay", "--since", "1h", "--until", "2h", "--dry-run"], 2, "--since 1h is not before --until 2h"),
        (["--state", "GONE"], 2, "--state 'GONE': choose one of WAITING"),
    ],
)
def test_an_error_is_one_sentence_with_the_value(
    warehouse: Path, arguments: list[str], code: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(warehouse)
    result = call(warehouse, *arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_dry_run_prints_what_would_be_published_and_changes_nothing(replayed: Path) -> None:
    result = call(replayed, "replay", "--topic", "*", "--set", 'cluster="prod"', "--dry-run")
    assert "2 would be published." in result.stdout
    assert "1 left out, already replayed" in result.stdout
    assert "3 left out, the message is not a JSON object" in result.stdout
    assert "1 left out, rejected by today's contract: wrong_type: order_topic" in result.stdout
    assert {row["state"] for row in listed(replayed, "--current")} == {"WAITING"}
    assert len(listed(replayed, "--state", "REPLAYED")) == 1


def test_an_old_route_is_never_published(filled: Path) -> None:
    result = call(filled, "replay", ROUTES, "0", "6", "--set", "order_topic=null", "--dry-run")
    assert "1 left out, too old: a newer route exists" in result.stdout


def test_a_message_that_todays_contract_accepts_needs_no_change(filled: Path) -> None:
    result = call(filled, "replay", PULLS, "0", "3", "--dry-run")
    assert (result.exit_code, "1 would be published." in result.stdout) == (0, True)
    assert "2023-11-14 22:13:20 UTC" in result.stdout


EVENT = {"a": 1, "b": {"c": 2}, "d": [{"e": 3}, {"e": 4}]}
RAW = json.dumps(EVENT).encode()


@pytest.mark.parametrize(
    ("sets", "changed"),
    [
        (["a=5"], {**EVENT, "a": 5}),
        (["a=five"], {**EVENT, "a": "five"}),
        (['a="5"'], {**EVENT, "a": "5"}),
        (["a="], {**EVENT, "a": ""}),
        (["x=null", "y=[1,2]"], {**EVENT, "x": None, "y": [1, 2]}),
        (["b.c=7", "b.new=8"], {**EVENT, "b": {"c": 7, "new": 8}}),
        (["d[1].e=9"], {**EVENT, "d": [{"e": 3}, {"e": 9}]}),
        (['d[2]={"e": 5}'], {**EVENT, "d": [{"e": 3}, {"e": 4}, {"e": 5}]}),
        (["a=x=y"], {**EVENT, "a": "x=y"}),
        ([], EVENT),
    ],
)
def test_set_changes_fields(sets: list[str], changed: dict[str, Any]) -> None:
    assert json.loads(set_fields(RAW, parse_sets(sets)) or b"") == changed


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("b.x.y=1", "field 'b.x.y' does not exist"),
        ("d[7].e=1", "field 'd[7].e' does not exist"),
        ("d.e=1", "field 'd.e' does not exist"),
        ("a[0]=1", "field 'a[0]' does not exist"),
        ("a..b=1", "is invalid; write a, a.b or a[0].b"),
        ("queue_id", "give FIELD=VALUE"),
        (" =3", "give FIELD=VALUE"),
    ],
)
def test_a_set_that_is_impossible_says_why(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        set_fields(RAW, parse_sets([text]))


def test_a_value_that_is_no_json_is_rejected_by_the_contract() -> None:
    changed = set_fields(event(PULLS), parse_sets(["queue_id=NaN"]))
    assert decode(PULLS, changed, INGEST_TIME_MS)[1]


@pytest.mark.parametrize("raw", [None, b"", b"\xff", b"[1]", b"{" * 99_999, b'{"a":"' + b"x" * (2 << 20) + b'"}'])
def test_only_a_json_object_has_fields_to_set(raw: bytes | None) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        set_fields(raw, {"a": 1})


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b'{"a": "\xe8\xae\xa2", "b": [1]}', '"a": "订"'),
        (b"\x1b[31mred", "\\x1b[31mred"),
        ('{"a": "\u009b31m"}'.encode(), "\\x9b"),
        (None, "no value"),
        (b"\x00" * 25_000, "characters more; --raw prints all"),
        (json.dumps({"a": "x" * 50_000}).encode(), "characters more; --raw prints all"),
    ],
    ids=["JSON", "an escape", "a C1 control", "null", "many bytes", "long JSON"],
)
def test_a_shown_message_has_no_terminal_controls(
    raw: bytes | None, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"topic": "rocketmq.pulls", "partition": 0, "offset": 1, "ingest_time": time, "state": "WAITING"}
    quarantine_command._print_message({**row, "reasons": ["not_json"], "raw": raw})
    printed = capsys.readouterr().out
    assert shown in printed
    assert all(sign.isprintable() or sign == "\n" for sign in printed)


class Landed:
    """A future of the producer."""

    def __init__(self, offset: int | None) -> None:
        self.partition, self.offset, self.value = 0, offset, self

    def succeeded(self) -> bool:
        return self.offset is not None


class FakePublisher:
    """Confirms all messages but the one at `silent`, and dies before the one at `deadly`."""

    def __init__(self, silent: int = -1, deadly: int = -1) -> None:
        self.silent, self.deadly = silent, deadly
        self.sent: list[tuple[str, bytes, bytes]] = []

    def __call__(self, _: Any) -> "FakePublisher":
        return self

    def __enter__(self) -> "FakePublisher":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def publish_raw(self, topic: str, key: bytes, value: bytes) -> Landed:
        if len(self.sent) == self.deadly:
            raise KeyboardInterrupt
        self.sent.append((topic, key, value))
        return Landed(None if len(self.sent) - 1 == self.silent else 100 + len(self.sent))

    def flush(self) -> None:
        if 0 <= self.silent < len(self.sent):
            raise PublishError("Kafka did not take an event")


Replayed = Callable[[FakePublisher], int]


@pytest.fixture
def replay_all(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replayed:
    """Replay the pulls that --set makes valid, one at a time; the number that was published when the replay ended."""

    def work(publisher: FakePublisher) -> int:
        monkeypatch.setattr(quarantine_command, "Publisher", publisher)
        monkeypatch.setattr(quarantine_command, "AT_A_TIME", 1)
        rows = read_quarantined(parse_options(topic=PULLS, warehouse=warehouse))
        sets = {"queue_id": 0, "cluster": "prod"}
        ready = [message for row in rows if (message := prepare(row, sets, INGEST_TIME_MS)[0]) is not None]
        with suppress(PublishError, KeyboardInterrupt):
            publish_again(Settings.load(paths={"warehouse": warehouse}), ready, "ada")
        return int(capsys.readouterr().out.removesuffix(" published.\n"))

    return work


def test_a_published_message_has_its_key_and_is_recorded(warehouse: Path, replay_all: Replayed) -> None:
    publisher = FakePublisher()
    assert replay_all(publisher) == 3
    assert {(topic, json.loads(value)["cluster"]) for topic, _, value in publisher.sent} == {(PULLS, "prod")}
    assert all(key for _, key, _ in publisher.sent)
    assert [row["replayed_offset"] for row in listed(warehouse, "--state", "REPLAYED")] == [101, 102, 103]
    assert replay_all(FakePublisher()) == 0


@pytest.mark.parametrize("publisher", [FakePublisher(silent=1), FakePublisher(deadly=1)], ids=["silent", "dead"])
def test_a_message_without_confirmation_waits_for_the_next_replay(
    warehouse: Path, replay_all: Replayed, publisher: FakePublisher
) -> None:
    assert replay_all(publisher) == 1
    assert [row["offset"] for row in listed(warehouse, "--state", "REPLAYED")] == [1]
    assert replay_all(FakePublisher()) == 2
    assert {row["state"] for row in listed(warehouse, "--topic", PULLS)} == {"REPLAYED"}


def test_without_a_broker_nothing_is_published(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise PublishError("kafka.bootstrap_servers = 'x:1': no broker answers")

    monkeypatch.setattr(quarantine_command, "Publisher", refuse)
    result = call(warehouse, "replay", PULLS, "0", "3", "--bootstrap-servers", "x:1")
    assert (result.exit_code, "0 published." in result.stdout) == (1, True)
    assert result.stderr == "error: kafka.bootstrap_servers = 'x:1': no broker answers\n"
    assert {row["state"] for row in listed(warehouse)} == {"WAITING"}


@pytest.mark.real
def test_a_message_is_published_to_kafka_and_not_again(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    settings = settings_for(kafka, tmp_path)
    warehouse, servers = settings.paths.warehouse, settings.kafka.bootstrap_servers
    append_rows(RowWriter(warehouse), {"quarantine": ROWS}, "app", 0)
    consumer = open_consumer(settings.kafka)
    before = read_spans(consumer, [PULLS])
    asked = ["replay", PULLS, "0", "1", "--set", "queue_id=3", "--bootstrap-servers", servers]
    first = call(warehouse, *asked)
    assert (first.exit_code, "1 published." in first.stdout) == (0, True)
    second = call(warehouse, *asked)
    assert (second.exit_code, "nothing to publish" in second.stderr) == (1, True)
    after = read_spans(consumer, [PULLS])
    consumer.close()
    assert sum(span.end for span in after.values()) - sum(span.end for span in before.values()) == 1
    row = listed(warehouse, "--state", "REPLAYED")[0]
    assert (row["offset"], row["replayed_offset"]) == (1, after[PULLS, row["replayed_partition"]].end - 1)
    assert f"replayed as {PULLS}-" in call(warehouse, "show", PULLS, "0", "1").stdout
