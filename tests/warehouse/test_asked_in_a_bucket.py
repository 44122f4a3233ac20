"""Every command that asks, keeps or writes tables says of a bucket what it says of a folder with the same files."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import obstore
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from conf.settings import Settings
from streaming.board.pages.overview import read_lags
from streaming.board.web.tables import Tables
from streaming.cli import app
from streaming.maintenance.table_keeper import TableKeeper
from streaming.store.store import History
from streaming.warehouse.file_copies import copies_folder
from streaming.warehouse.table_store import store_of
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.history.warehouse_stage import alert, assignment, delivery, fault, member, write
from tests.support.tiers import in_proof

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("s3")]

AT = "2025-06-15T15:07:10Z"
DAILY = (
    ["alerts", "--since", "2025-06-15", "--until", AT],
    ["assignments", "--at", AT],
    ["owner", "orders", "broker-a:0", "--at", AT],
    ["explain", "one-1"],
    ["sql", "SELECT count(*) AS n, max(changed_at) AS newest FROM alerts"],
    ["quality"],
    ["silence", "list"],
    ["canary"],
    ["relay", "--dry-run"],
    ["maintain", "--dry-run"],
    ["forget", "--owner", "a", "--reason", "b", "--cluster", "c", "--dry-run"],
)
OTHERS = (
    ["alerts"],
    ["alerts", "--history"],
    ["alerts", "--current"],
    ["faults"],
    ["members", "--current"],
    ["deliveries"],
    ["sql", "FROM assignments_now ORDER BY ALL"],
    ["quarantine"],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    batches = (
        {
            "alerts": [
                alert(f"i{batch_id}", "FIRING", 5),
                alert("one", "FIRING" if batch_id < 5 else "RESOLVED", batch_id),
            ],
            "assignments": [
                assignment(0, "OK", 0),
                assignment(1, "UNOWNED", 1, planned_owner=None, observed_owners=[]),
            ],
            "memberships": [member("A@1", "JOINED", batch_id)],
            "fault_items": [fault("P@1", batch_id, available=False)],
            "alert_deliveries": [delivery("one", "PENDING", 7)],
        }
        for batch_id in range(6)
    )
    return write(tmp_path / "warehouse", *batches)


@pytest.fixture
def same(bucket: str, folder: Path) -> str:
    """The same files in the bucket."""
    store = store_of(bucket)
    for path in folder.rglob("*"):
        if path.is_file():
            obstore.put(store, str(path.relative_to(folder)), path.read_bytes())
    return bucket


def ask(location: Path | str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--warehouse", str(location)])


@pytest.mark.parametrize("questions", [DAILY, *in_proof([(OTHERS,)])], ids=["daily", "others"])
def test_each_question_has_the_same_answer(folder: Path, same: str, questions: Sequence[list[str]]) -> None:
    for question in questions:
        form = ["--format", "json"] if question[0] not in ("silence", "canary", "forget") else []
        there, here = ask(same, *question, *form), ask(folder, *question, *form)
        assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout), (question, there.output)
        assert here.exit_code == (1 if question == ["canary"] else 0), (question, here.output)
        assert there.stderr.replace(same, str(folder)) == here.stderr


def test_copies_are_for_their_owner_alone_and_go_with_the_tables_files(
    same: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(same)
    copies = copies_folder(same)
    assert oct(copies.stat().st_mode & 0o777) == "0o700"
    files = sorted((copies / "alerts").iterdir())
    assert len(files) == 6
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}
    DeltaTable(f"{same}/alerts").optimize.compact()
    history.refresh()
    assert len(list((copies / "alerts").iterdir())) == 7, "who still reads the older version has its files"
    for file in files:
        os.utime(file, (0, 0))
    append_rows(DeltalakeWriter(same), {"alerts": [alert("new", "FIRING", 9)]}, "app", 9)
    history.refresh()
    assert len(list((copies / "alerts").iterdir())) == 2
    assert history.rows("SELECT count(*) AS n FROM alerts") == [{"n": 13}]


def test_copies_that_were_taken_away_are_fetched_again(same: str) -> None:
    history = History(same)
    shutil.rmtree(copies_folder(same))
    assert history.rows("SELECT count(*) AS n FROM alerts") == [{"n": 12}]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_parquet('{place}/alerts/*.parquet')",
        "SELECT getenv('AWS_SECRET_ACCESS_KEY')",
        *in_proof(["COPY alerts TO '{place}/x.parquet'", "INSTALL httpfs"]),
    ],
)
def test_sql_reaches_neither_credentials_nor_the_bucket(same: str, sql: str) -> None:
    ended = ask(same, "sql", sql.format(place=same))
    assert ended.exit_code == 1
    assert "not-to-be-shown" not in ended.output


def test_the_board_follows_a_bucket(same: str) -> None:
    tables = Tables(same)
    before = tables.look(at_once=True)
    assert before.trouble == ""
    append_rows(DeltalakeWriter(same), {"alerts": [alert("new", "FIRING", 9)]}, "app", 9)
    after = tables.look(at_once=True)
    assert before.tag != after.tag
    assert after.history is not None
    assert after.history.rows("SELECT count(*) AS n FROM alerts") == [{"n": 13}]
    assert "alerts" in read_lags(after.history, time.time_ns() // 1_000_000, 120_000)


def test_maintain_and_the_keeper_work_in_a_bucket(same: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load(paths={"warehouse": same, "checkpoints": tmp_path / "c"})
    monkeypatch.setattr("streaming.maintenance.table_keeper.TIERS", ((1_000_000, 5),))
    TableKeeper(settings).keep()
    assert len(DeltaTable(f"{same}/assignments").file_uris()) == 1
    monkeypatch.setenv("BALANCEWATCH_MAINTAIN__MIN_FILES", "2")
    ended = ask(same, "maintain", "--format", "json")
    assert ended.exit_code == 0, ended.output
    rows = {row["table"]: row for row in json.loads(ended.stdout)}
    assert rows["alerts"]["rows"] == 12
    assert rows["fault_items"]["rows_dropped"] == 5, "what is older than its retention_days, but for what holds"


def test_people_silence_and_acknowledge_in_a_bucket(same: str) -> None:
    silence = ["silence", "add", "--for", "2h", "--owner", "ada", "--reason", "known", "--match", "cluster=prod-0"]
    ack = ["ack", "i1-1", "--owner", "ada", "--note", "mine"]
    for command, table in ((silence, "silences"), (ack, "acknowledgements")):
        ended = ask(same, *command)
        assert ended.exit_code == 0, ended.output
        assert DeltaTable(f"{same}/{table}").to_pyarrow_table().num_rows == 1
