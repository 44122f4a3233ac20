"""Lost messages: the start is refused in a sentence, or continues and reports them once. Without Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from deltalake import DeltaTable

from conf.settings import Settings
from schemas.events import CLOCKS, PULLS
from schemas.tables import MEMBERSHIPS
from streaming.kafka_io.consumer import Span
from streaming.queries.checkpoint import put_back, read_position
from streaming.self_monitoring.data_loss import DataLoss, DataLossError, losses_of, refuse_losses
from streaming.warehouse.writer import DeltalakeWriter
from tests.maintenance.rows import row_of, write
from udfs.alerts.self_kinds import LIMITS

HEADER = 'v1\n{"batchWatermarkMs":0}\n'
NAME = "balance"
NOW_MS = 1_789_000_000_000

PULLS_0, CLOCKS_0 = (PULLS, 0), (CLOCKS, 0)


def write_checkpoint(root: Path, batches: list[dict[str, dict[str, int]]], *, committed: int) -> Path:
    """Write Spark's files of a query: the offsets of each batch, and commits of the first `committed`."""
    checkpoint = root / "checkpoints" / NAME
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"4a5c"}')
    (checkpoint / "sources/0/0").write_bytes(b"\0v1\n" + json.dumps({PULLS: {"0": 3}, CLOCKS: {"0": 0}}).encode())
    for number, offsets in enumerate(batches):
        (checkpoint / "offsets" / str(number)).write_text(HEADER + json.dumps(offsets))
        (checkpoint / "offsets" / f".{number}.crc").write_bytes(b"crc")
        if number < committed:
            (checkpoint / "commits" / str(number)).write_text("v1\n{}")
    return checkpoint


BATCHES = [{PULLS: {"0": 10}, CLOCKS: {"0": 1}}, {PULLS: {"0": 20}, CLOCKS: {"0": 2}}]


@pytest.mark.parametrize(
    ("planned", "committed", "wanted"),
    [(2, 2, (20, 2)), (2, 1, (10, 1)), (1, 0, (3, 0))],
    ids=["a batch that ended", "a batch that did not end", "a first batch that did not end"],
)
def test_the_next_batch_begins_where_the_last_one_ended(
    tmp_path: Path, planned: int, committed: int, wanted: tuple[int, int]
) -> None:
    position = read_position(write_checkpoint(tmp_path, BATCHES[:planned], committed=committed))
    assert position is not None
    assert (position.batch_id, position.checkpoint_id) == (planned - 1, "4a5c")
    assert position.is_committed == (committed == planned)
    assert position.wanted == dict(zip((PULLS_0, CLOCKS_0), wanted, strict=True))
    assert position.planned == {PULLS_0: BATCHES[planned - 1][PULLS]["0"], CLOCKS_0: planned}


def test_no_batch_no_position(tmp_path: Path) -> None:
    assert read_position(tmp_path / "nowhere") is None
    assert read_position(write_checkpoint(tmp_path, [], committed=0)) is None


def test_a_partition_is_put_back_and_the_others_stay(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path, [{PULLS: {"0": 10}, CLOCKS: {"0": 1}}], committed=1)
    put_back(checkpoint, {PULLS_0: 0})
    position = read_position(checkpoint)
    assert position is not None
    assert position.wanted == {PULLS_0: 0, CLOCKS_0: 1}
    assert (checkpoint / "offsets/0").read_text().startswith(HEADER)
    assert not (checkpoint / "offsets/.0.crc").exists()


def settings_in(root: Path, *, fail_on_data_loss: bool) -> Settings:
    return Settings.load(
        kafka={"bootstrap_servers": "127.0.0.1:1"},
        paths={"warehouse": root / "warehouse", "checkpoints": root / "checkpoints"},
        queries={"fail_on_data_loss": fail_on_data_loss},
    )


@pytest.fixture
def lenient(tmp_path: Path) -> Settings:
    return settings_in(tmp_path, fail_on_data_loss=False)


@pytest.fixture
def strict(tmp_path: Path) -> Settings:
    return settings_in(tmp_path, fail_on_data_loss=True)


@pytest.fixture
def kafka_holds(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[tuple[str, int], Span]], None]:
    """A Kafka with these spans."""

    def hold(spans: dict[tuple[str, int], Span]) -> None:
        monkeypatch.setattr("streaming.self_monitoring.data_loss.open_consumer", MagicMock())
        monkeypatch.setattr("streaming.self_monitoring.data_loss.read_spans", lambda _, topics: spans)

    return hold


@pytest.mark.parametrize(
    ("pulls", "said"),
    [
        (Span(0, 20), None),
        (Span(20, 20), None),
        (Span(20, 900), None),
        (Span(21, 900), f"{PULLS}-0 from offset 20, but it begins at 21: 1 message lost"),
        (Span(5_020, 9_000), f"{PULLS}-0 from offset 20, but it begins at 5020: 5,000 messages lost"),
        (Span(0, 19), f"{PULLS}-0 from offset 20, but it ends at 19: the topic was deleted and recreated"),
        (None, f"{PULLS}-0 from offset 20, but it ends at 0: the topic was deleted and recreated"),
    ],
)
def test_a_start_is_refused_in_one_sentence_with_the_query_the_partition_the_number_and_the_setting(
    strict: Settings, lenient: Settings, kafka_holds: Any, tmp_path: Path, pulls: Span | None, said: str | None
) -> None:
    write_checkpoint(tmp_path, [{PULLS: {"0": 20}, CLOCKS: {"0": 2}}], committed=1)
    kafka_holds({CLOCKS_0: Span(0, 2)} | ({PULLS_0: pulls} if pulls else {}))
    if said is None:
        refuse_losses(NAME, strict)
        return
    with pytest.raises(DataLossError) as refused:
        refuse_losses(NAME, strict)
    assert str(refused.value).startswith(f"the query {NAME} needs {said}")
    assert str(refused.value).endswith("set queries.fail_on_data_loss = false to continue without them")
    refuse_losses(NAME, lenient)


def alerts_in(settings: Settings) -> list[dict[str, Any]]:
    rows = DeltaTable(str(settings.paths.warehouse / "alerts")).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["changed_at"])


def test_a_loss_is_reported_once_however_often_the_start_is_tried_and_resolves_after_an_hour_of_progress(
    lenient: Settings, kafka_holds: Any, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, [{PULLS: {"0": 20}, CLOCKS: {"0": 2}}], committed=1)
    kafka_holds({CLOCKS_0: Span(0, 2), PULLS_0: Span(25, 30)})
    writer = DeltalakeWriter(lenient.paths.warehouse)
    for minute in range(3):
        assert [loss.gone for loss in DataLoss(lenient, writer).look(NAME, NOW_MS + minute * 60_000)] == [5]
    (row,) = alerts_in(lenient)
    said = [row[name] for name in ("kind", "cluster", "severity", "state")]
    assert said == ["data_loss", "balancewatch", "error", "FIRING"]
    assert json.loads(row["labels"]) == {"cluster": "balancewatch", "query": NAME}
    assert json.loads(row["evidence"])["ranges"] == [
        {"topic": PULLS, "partition": 0, "wanted": 20, "beginning": 25, "end": 30, "gone": 5}
    ]
    later = DataLoss(lenient, writer)
    later.progress(NAME, NOW_MS + LIMITS.loss_settled_ms - 1)
    assert len(alerts_in(lenient)) == 1
    for ms in (0, 1):
        DataLoss(lenient, writer).progress(NAME, NOW_MS + LIMITS.loss_settled_ms + ms)
        later.progress(NAME, NOW_MS + LIMITS.loss_settled_ms + ms)
    firing, resolved = alerts_in(lenient)
    assert (resolved["state"], resolved["incident_id"]) == ("RESOLVED", firing["incident_id"])
    assert resolved["started_at"] == firing["started_at"]


def test_a_further_loss_belongs_to_the_open_incident_and_a_later_one_is_another(
    lenient: Settings, kafka_holds: Any, tmp_path: Path
) -> None:
    writer = DeltalakeWriter(lenient.paths.warehouse)
    reported: list[dict[str, Any]] = []
    for number, ms in enumerate((0, 60_000, 60_000 + 2 * LIMITS.loss_settled_ms)):
        batches = [{PULLS: {"0": 20 + 20 * batch}} for batch in range(number + 1)]
        write_checkpoint(tmp_path, batches, committed=number + 1)
        kafka_holds({PULLS_0: Span(25 + 20 * number, 900), CLOCKS_0: Span(0, 2)})
        losses = DataLoss(lenient, writer, reported.extend)
        losses.progress(NAME, NOW_MS + ms)
        losses.look(NAME, NOW_MS + ms)
    rows = alerts_in(lenient)
    assert sorted(row["state"] for row in rows) == ["FIRING", "FIRING", "FIRING", "RESOLVED"]
    assert [row["state"] for row in reported] == ["FIRING", "FIRING", "RESOLVED", "FIRING"]
    assert len({row["incident_id"] for row in rows}) == 2
    assert len({row["alert_id"] for row in rows}) == 1


def test_a_damaged_commit_is_reported_once_per_damage_and_resolves_after_an_hour(strict: Settings) -> None:
    write(strict.paths.warehouse, MEMBERSHIPS, [row_of(MEMBERSHIPS, NOW_MS)])
    DeltalakeWriter(strict.paths.warehouse)
    for minute in range(2):
        (strict.paths.warehouse / "memberships" / "_delta_log" / f"{1:020}.json").write_bytes(b"")
        for _ in range(3):
            reported: list[dict[str, Any]] = []
            losses = DataLoss(strict, DeltalakeWriter(strict.paths.warehouse), reported.extend)
            losses.look_at_tables(NOW_MS + minute * 60_000)
            losses.progress(NAME, NOW_MS + minute * 60_000 + 1)
        assert reported == [], "the first start has reported it"
    first, second = alerts_in(strict)
    assert json.loads(first["labels"]) == {"cluster": "balancewatch", "table": "memberships"}
    assert "commit 00000000000000000001.json of the table memberships" in first["summary"]
    assert (first["state"], second["state"]) == ("FIRING", "FIRING")
    assert first["incident_id"] == second["incident_id"]
    losses.progress(NAME, second["changed_at"].timestamp() * 1000 + LIMITS.loss_settled_ms)
    assert [row["state"] for row in alerts_in(strict)] == ["FIRING", "FIRING", "RESOLVED"]


def test_a_recreated_partition_is_read_from_its_beginning(lenient: Settings, kafka_holds: Any, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path, [{PULLS: {"0": 20}, CLOCKS: {"0": 2}}], committed=1)
    kafka_holds({CLOCKS_0: Span(0, 2), PULLS_0: Span(0, 7)})
    assert DataLoss(lenient, DeltalakeWriter(lenient.paths.warehouse)).look(NAME, NOW_MS)
    position = read_position(checkpoint)
    assert position is not None
    assert position.wanted == {PULLS_0: 0, CLOCKS_0: 2}
    assert losses_of(NAME, lenient)[1] == []
