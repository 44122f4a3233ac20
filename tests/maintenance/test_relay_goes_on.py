"""The relay's stream of the alerts table across all that maintenance does to it: it goes on, and tells each once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from conf.settings import Settings
from streaming.maintenance.upkeep import Plan, Report, maintain
from streaming.oncall.relay import clock_ms
from streaming.oncall.relay_thread import RelayThread
from streaming.queries.warehouse import DeltalakeWriter, append_rows, table_path
from tests.maintenance.rows import DAY_MS, NOW_MS
from tests.oncall.fakes import FakeServer
from tests.oncall.stage import START_MS, Row, alert_row

pytestmark = pytest.mark.spark

LONG_AGO_MS = NOW_MS - 1_000 * DAY_MS


@pytest.fixture
def hook() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, hook: FakeServer) -> Settings:
    oncall: dict[str, Any] = {
        "receivers": [{"name": "hook", "type": "webhook", "url": hook.url}],
        "routes": [{"name": "all", "receivers": ["hook"]}],
        "poll_seconds": 0.2,
    }
    paths = {"warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"}
    return Settings.load(paths=paths, oncall=oncall, maintain={"min_files": 2})


def test_the_relay_goes_on_across_compaction_deletion_and_vacuum(
    settings: Settings, hook: FakeServer, spark: SparkSession
) -> None:
    """While it runs, and while it is away: it goes on from its checkpoint, and tells exactly what is new."""
    writer, batches = DeltalakeWriter(settings.paths.warehouse), iter(range(100))
    path = table_path(settings.paths.warehouse, "alerts")

    def write(*rows: Row) -> None:
        append_rows(writer, {"alerts": list(rows)}, "app", next(batches))

    def work() -> Report:
        old = ("FIRING", LONG_AGO_MS), ("RESOLVED", LONG_AGO_MS + 1)
        write(*(alert_row(f"old-{clock_ms()}", state, at_ms) for state, at_ms in old))
        report = next(iter(maintain(settings, Plan(("alerts",)), clock_ms())))
        assert not report.failed
        assert report.files_compacted
        assert report.rows_dropped == 2
        return report

    write(*(alert_row("past", state, START_MS - 9 + n) for n, state in enumerate(("FIRING", "RESOLVED"))))
    relay = RelayThread(settings, lambda: spark)
    relay.start()
    write(alert_row("a", "FIRING", START_MS))
    assert hook.wait_for(1)
    work()
    write(alert_row("b", "FIRING", START_MS + 1))
    assert hook.wait_for(2)
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)  # as a week later
    write(alert_row("c", "FIRING", START_MS + 2))
    assert hook.wait_for(3)
    assert relay._feed is not None
    assert relay._feed._failures == 0
    relay.stop()

    write(alert_row("d", "FIRING", START_MS + 3))
    work()
    again = RelayThread(settings, lambda: spark)
    again.start()
    assert hook.wait_for(4)
    write(alert_row("a", "RESOLVED", START_MS + 4))
    assert hook.wait_for(5)
    assert again._feed is not None
    assert again._feed._failures == 0
    again.stop()
    told = [f"{one['fingerprint']} {one['status']}" for call in hook.received for one in call.fields["alerts"]]
    assert told == ["a firing", "b firing", "c firing", "d firing", "a resolved"]
