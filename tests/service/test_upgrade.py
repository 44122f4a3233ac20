"""Tables, state and checkpoint of each release, opened by this one: tests/golden/release-*.tar.gz.

CONTRIBUTING.md says when a release gets its archive. Archives of earlier releases stay.
"""

import json
import re
import tarfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from conf.settings import SettingsError
from schemas.tables import TABLES
from streaming.board.pages import PAGES
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.queries import state as state_module
from streaming.queries.checkpoint import StateNote, checkpoint_of
from streaming.queries.parcel import decode_chunks, encode
from streaming.queries.state import ShardIndex, ShardState
from streaming.queries.store import DictShardStore, StateError
from streaming.store.store import History
from streaming.warehouse.tables import open_table
from tests.board.tables import board_of
from tests.history.warehouse_stage import rows_of, run
from tests.relay.fakes import FakeServer
from tests.relay.test_relay import Scene, notified, settings_of
from tests.support.engine import Stream
from tests.support.offenders import assert_none
from tests.support.release import (
    GOLDEN,
    NOTIFIED_MS,
    READ_MS,
    part,
    publish_log,
    read_events,
    read_states,
    run_over,
    settings_of_release,
)
from tests.support.twins_log import SECONDS, START_MS, publish, story, story_in

END_MS = START_MS + SECONDS * 1000
ARCHIVES = sorted(GOLDEN.glob("release-*.tar.gz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a release's files."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    # Spark notes the absolute path of its state schema, and a checksum of the file with it.
    for path in tmp_path.glob("checkpoints/balance/state/*/_metadata/v2/[0-9]*"):
        path.write_text(re.sub(r'file:[^"]*(?=/checkpoints/)', f"file:{tmp_path}", path.read_text()))
        path.with_name(f".{path.name}.crc").unlink()
    return tmp_path


@pytest.fixture
def warehouse(release: Path) -> Path:
    return release / "warehouse"


def test_every_table_opens_and_all_its_rows_are_read(warehouse: Path) -> None:
    written = {path.name for path in warehouse.iterdir() if (path / "_delta_log").is_dir()}
    for table in TABLES.values():
        open_table(warehouse, table)
    history = History(warehouse)
    counts = {name: history.rows(f"SELECT count(*) AS rows FROM {name}")[0]["rows"] for name in TABLES}
    assert {name for name, count in counts.items() if count} == written
    assert history.left_out == {}


def test_the_commands_answer(warehouse: Path) -> None:
    current = {row["kind"]: row for row in rows_of(warehouse, "alerts", "--current")}
    assert {kind: row["state"] for kind, row in current.items()} == {
        "duplicate_client_id": "FIRING",
        "double_consumed_queue": "FIRING",
        "starved_queue": "FIRING",
        "broker_isolated": "FIRING",
    }
    explained = run(warehouse, "explain", current["duplicate_client_id"]["incident_id"])
    assert explained.exit_code == 0, explained.output
    for words in ("restarting the twin", "hook", current["duplicate_client_id"]["client_id"]):
        assert words in explained.stdout
    queue = next(row for row in rows_of(warehouse, "assignments", "--current") if row["planned_owner"])
    place = f"{queue['broker_name']}:{queue['queue_id']}"
    owner = run(warehouse, "owner", queue["topic"], place, "--group", queue["consumer_group"])
    assert owner.exit_code == 0, owner.output
    assert queue["planned_owner"] in owner.stdout
    assert [row["created_by"] for row in rows_of(warehouse, "silence", "list", "--all")] == ["ada"]


def test_the_board_shows_every_page(warehouse: Path) -> None:
    (incident,) = rows_of(warehouse, "alerts", "--current", "--kind", "duplicate_client_id")
    board = board_of(warehouse, READ_MS)
    group, name = "group=order-service", f"id={incident['incident_id']}"
    asked = {"/group": group, "/history": group, "/incident": name}
    for page in PAGES:
        text, status = board.value_json(page, asked.get(page.path, ""))
        assert (status, json.loads(text)["left_out"]) == (200, {}), page.path
    trouble = json.loads(board.value_json(board.pages["/"], "")[0])["page"]["trouble"]
    assert incident["incident_id"] in {one["incident_id"] for one in trouble["firing"]}


def test_the_relay_sends_what_is_owed_and_nothing_twice(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first incident is in the delivery log, two are inhibited by it, and the broker's is owed."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (owed,) = rows_of(warehouse, "alerts", "--current", "--kind", "broker_isolated")
    with FakeServer() as hook:
        scene = Scene(warehouse, settings_of(hook.url))
        for _ in range(2):
            assert scene.deliver() == 0
        assert notified(hook) == [f"{owed['alert_id']} firing"]


def lost(old: Any, new: Any, place: str) -> Iterator[str]:
    """Yield the places of values in `old` that `new` lacks. Fields may be added to `new`; a set has any order."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from lost(value, new.get(name), f"{place}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) <= len(new):
        if any(isinstance(value, dict | list) for value in old):
            yield from chain.from_iterable(
                lost(value, new[number], f"{place}[{number}]") for number, value in enumerate(old)
            )
        elif sorted(map(repr, old)) != sorted(map(repr, new[: len(old)])):
            yield f"{place}: {old} is {new}"
    elif old != new:
        yield f"{place}: {old!r} is {new!r}"


def decoded_and_encoded(store: DictShardStore) -> Iterator[tuple[str, Any, Any]]:
    """Yield each value of a state by its place: as it was written, and as this release writes it after reading it."""
    index, state = store.values["shard_index"], ShardState(store)
    from_json, from_pack = msgspec.json.decode, msgspec.msgpack.decode
    yield "shard_index", from_json(index), from_json(msgspec.json.encode(state_module._shard_index.decode(index)))
    for name in ("groups", "routes", "channels", "boards", "fleets"):
        shelved = getattr(state, name)
        for key, value in shelved._shelf.items():
            yield f"{name} {key}", from_json(value), from_json(msgspec.json.encode(shelved._decoder.decode(value)))
    for name, decode in (("beats", state_module._decode_beats), ("entries", state_module._decode_entry)):
        for key, value in state._shelves[name].items():
            yield f"{name} {key}", from_pack(value), from_pack(encode(decode(value)))
    for value in store.pending:
        yield "pending", from_pack(value), from_pack(encode(decode_chunks(value)))


def test_state_is_read_and_written_without_a_lost_field(release: Path) -> None:
    """A renamed field would be dropped in silence, and a state of another version is refused."""
    number, stores = read_states(release)
    if number != ShardIndex().version:
        with pytest.raises(StateError, match=f"state of version {number}"):
            ShardState(next(iter(stores.values())))
        return
    shelves = {name.partition("/")[0] for store in stores.values() for name in store.values}
    assert shelves == {"shard_index", *ShardState(DictShardStore())._shelves}
    assert any(store.pending for store in stores.values())
    assert_none(
        f"{scenario} {problem}"
        for scenario, store in stores.items()
        for place, old, new in decoded_and_encoded(store)
        for problem in lost(old, new, place)
    )


@pytest.mark.spark
@pytest.mark.real
def test_a_run_continues_from_the_checkpoint(empty_kafka: EmbeddedKafka, spark: SparkSession, release: Path) -> None:
    """The incidents that were open end, later ones follow, and no row is written twice."""
    settings, log = settings_of_release(empty_kafka, release), read_events(release)
    if read_states(release)[0] != ShardIndex().version:
        with pytest.raises(SettingsError, match="rewind"):
            StateNote("balance", checkpoint_of("balance", settings)).refuse_other()
        return
    before = story_in(settings)
    publish_log(settings, part(log, 0, NOTIFIED_MS))
    publish(settings, part(log, NOTIFIED_MS, READ_MS) + part(log, READ_MS, END_MS + 1))
    run_over(settings, spark)
    after = story_in(settings)
    assert {states[-1][0] for states in before.values()} == {"FIRING"}
    assert after == story(Stream().feed(log)["alerts"])
