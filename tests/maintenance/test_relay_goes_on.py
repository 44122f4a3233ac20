"""The relay across all that maintenance does to the alerts table: it goes on, and tells each once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conf.settings import Settings
from streaming.maintenance.upkeep import Plan, Report, maintain
from streaming.queries.written_batch import WrittenBatch
from streaming.relay.relay import Relay
from streaming.text.times import wall_ms
from streaming.warehouse import appender
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.maintenance.rows import DAY_MS, NOW_MS
from tests.relay.fakes import FakeServer
from tests.relay.stage import START_MS, Row, alert_row
from tests.relay.test_relay import keys_of, notified

LONG_AGO_MS = NOW_MS - 1_000 * DAY_MS


@pytest.fixture
def hook() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, hook: FakeServer) -> Settings:
    paths = {"warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"}
    return Settings.load(paths=paths, oncall=keys_of(hook.url) | {"poll_seconds": 0.2}, maintain={"min_files": 2})


@pytest.mark.parametrize("has_batches", [True, False], ids=["in run", "in its own process"])
def test_the_relay_goes_on_across_compaction_deletion_and_vacuum(
    settings: Settings, hook: FakeServer, has_batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it runs, and while it is away, however long: it tells exactly what is new."""
    monkeypatch.setattr(appender, "TRUST_SECONDS", -1)  # a log that is shortened is older than that
    writer, batches = DeltalakeWriter(settings.paths.warehouse), iter(range(100))
    listeners: list[Relay | None] = [None]
    path = table_path(settings.paths.warehouse, "alerts")

    def write(*rows: Row) -> None:
        batch_id, by_table = next(batches), {"alerts": list(rows)}
        append_rows(writer, by_table, "app", batch_id)
        if (listener := listeners[-1]) is not None and has_batches:
            listener.on_batch(WrittenBatch("balance", batch_id, by_table))

    def work() -> Report:
        alert_id = f"old-{wall_ms()}"
        write(alert_row(alert_id, "FIRING", LONG_AGO_MS), alert_row(alert_id, "RESOLVED", LONG_AGO_MS + 1))
        report = next(iter(maintain(settings, Plan(("alerts",)), wall_ms())))
        assert not report.failed
        assert report.files_compacted
        assert report.rows_dropped == 2
        return report

    def vacuum() -> None:
        """As a week later, when the log is shortened too."""
        table = DeltaTable(path)
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        table.create_checkpoint()
        for version in range(int(table.version())):
            (Path(path) / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)

    def start() -> Relay:
        relay = Relay(settings)
        listeners.append(relay)
        relay.start()
        relay.wait_until_up()
        return relay

    write(*(alert_row("past", state, START_MS - 9 + n) for n, state in enumerate(("FIRING", "RESOLVED"))))
    relay = start()
    write(alert_row("a", "FIRING", START_MS))
    assert hook.wait_for(1)
    work()
    write(alert_row("b", "FIRING", START_MS + 1))
    assert hook.wait_for(2)
    vacuum()
    write(alert_row("c", "FIRING", START_MS + 2))
    assert hook.wait_for(3)
    relay.stop()

    listeners.append(None)
    write(alert_row("d", "FIRING", START_MS + 3))
    work()
    vacuum()
    again = start()
    assert hook.wait_for(4)
    write(alert_row("a", "RESOLVED", START_MS + 4))
    assert hook.wait_for(5)
    again.stop()
    assert notified(hook) == [*(f"{name} firing" for name in "abcd"), "a resolved"]
