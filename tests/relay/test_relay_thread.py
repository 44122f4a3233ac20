"""The relay as it runs, beside a query and in a process of its own: a real Delta table, a webhook over HTTP."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from structlog.testing import capture_logs

from conf.settings import Settings
from schemas.tables import ACKNOWLEDGEMENTS, SILENCES, Table
from streaming.queries.written_batch import WrittenBatch
from streaming.relay import tables
from streaming.relay.relay import Relay
from streaming.relay.tables import RelayTables
from streaming.service import relay_command, settings_reload
from streaming.warehouse.tables import open_table, table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.relay.fakes import FakeServer
from tests.relay.stage import START_MS, Row, alert_row
from tests.relay.test_relay import Scene, keys_of, notified
from tests.support.rocketmq_server import wait_for
from udfs.alerts.silence import Silence

Write = Callable[..., None]


@pytest.fixture
def settings(tmp_path: Path, hook: FakeServer) -> Settings:
    return settings_of(tmp_path, hook.url)


class Query(Scene):
    """Writes batches to the table, and hands each to its listener, if it has one."""

    listener: Relay | None = None

    def write(self, *rows: Row, is_handed_over: bool = True) -> None:
        super().write(*rows)
        if is_handed_over and self.listener is not None:
            self.listener.on_batch(WrittenBatch("balance", self.batches, {"alerts": list(rows)}))


@pytest.fixture
def query(settings: Settings) -> Query:
    return Query(Path(settings.paths.warehouse), settings.oncall)


def settings_of(root: Path, url: str) -> Settings:
    paths = {"warehouse": root / "warehouse", "checkpoints": root / "checkpoints"}
    return Settings.load(paths=paths, oncall=keys_of(url), metrics={"enabled": False})


def started(settings: Settings, query: Query, *, has_batches: bool = True) -> Relay:
    relay = Relay(settings)
    query.listener = relay if has_batches else None
    relay.start()
    return relay


@pytest.mark.parametrize("has_batches", [True, False], ids=["in run", "in its own process"])
def test_each_alert_is_notified_once_across_stops(
    settings: Settings, hook: FakeServer, query: Query, has_batches: bool
) -> None:
    """After a restart the relay notifies exactly what is new, without a checkpoint."""
    query.write(alert_row("z", "FIRING", START_MS - 1))
    first = started(settings, query, has_batches=has_batches)
    query.write(alert_row("a", "FIRING", START_MS))
    assert hook.wait_for(2)
    query.write(alert_row("b", "PENDING", START_MS), alert_row("b", "FIRING", START_MS + 1))
    assert hook.wait_for(3)
    first.stop()
    assert not first.is_alive()

    query.write(alert_row("a", "RESOLVED", START_MS + 9), alert_row("c", "FIRING", START_MS + 9))
    second = started(settings, query, has_batches=has_batches)
    assert hook.wait_for(5)
    query.write(alert_row("c", "RESOLVED", START_MS + 20))
    assert hook.wait_for(6)
    second.stop()
    assert notified(hook)[:3] == ["z firing", "a firing", "b firing"]
    assert sorted(notified(hook)[3:5]) == ["a resolved", "c firing"]
    assert notified(hook)[5:] == ["c resolved"]
    assert not (settings.paths.checkpoints / "relay").exists()
    wait_for("no thread is left", lambda: not [one for one in threading.enumerate() if one.name.startswith("relay")])


def test_alerts_of_no_batch_are_notified_too_and_what_nobody_handed_over_before_the_end(
    settings: Settings, hook: FakeServer, query: Query
) -> None:
    relay = started(settings, query)
    relay.wait_until_up()
    append_rows(DeltalakeWriter(settings.paths.warehouse), {"alerts": [alert_row("q", "FIRING", START_MS)]}, "q", 0)
    relay.look()
    assert hook.wait_for(1)
    query.write(alert_row("a", "FIRING", START_MS), is_handed_over=False)
    relay.stop()
    assert notified(hook) == ["q firing", "a firing"]


def test_a_relay_that_dies_begins_again_from_the_tables(
    settings: Settings, hook: FakeServer, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches in between are not lost, and nothing is notified twice."""
    dies, step, load = threading.Event(), Relay.step, Relay.load

    def mortal(self: Relay, wait_seconds: float | None = None) -> None:
        if dies.is_set():
            dies.clear()
            raise RuntimeError("whatever it is")
        step(self, wait_seconds)

    lives = []
    monkeypatch.setattr(Relay, "step", mortal)
    monkeypatch.setattr(Relay, "load", lambda self: (lives.append(self), load(self))[1])
    relay = started(settings, query)
    query.write(alert_row("a", "FIRING", START_MS))
    assert hook.wait_for(1)
    dies.set()
    wait_for("the relay has died", lambda: not relay._works, every_seconds=0.02)
    query.write(alert_row("b", "FIRING", START_MS))
    assert hook.wait_for(2)
    query.write(alert_row("c", "FIRING", START_MS))
    assert hook.wait_for(3)
    relay.stop()
    assert len(lives) == 2
    assert notified(hook) == ["a firing", "b firing", "c firing"]


def test_a_changed_receiver_is_notified_without_a_restart_and_nothing_is_notified_twice(
    tmp_path: Path, settings: Settings, hook: FakeServer, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.write(alert_row("a", "FIRING", START_MS))
    relay = started(settings, query)
    assert hook.wait_for(1)
    broken = settings.oncall.receivers[0].model_copy(update={"url": None, "url_env": "NOT_THERE"})
    monkeypatch.delenv("NOT_THERE", raising=False)
    relay.renew(settings.model_copy(update={"oncall": settings.oncall.model_copy(update={"receivers": (broken,)})}))
    query.write(alert_row("b", "FIRING", START_MS))
    assert hook.wait_for(2)
    with FakeServer() as other:
        before = relay.owed
        relay.renew(settings_of(tmp_path, other.url))
        wait_for("the settings are taken", lambda: relay.owed is not before)
        query.write(alert_row("c", "FIRING", START_MS))
        assert other.wait_for(1)
        relay.stop()
        assert (notified(hook), notified(other)) == (["a firing", "b firing"], ["c firing"])


def test_a_relay_whose_log_was_cleaned_away_begins_anew_from_the_tables(
    settings: Settings, hook: FakeServer, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is notified twice: the delivery log has what was notified."""
    query.write(alert_row("a", "FIRING", START_MS))
    is_held = threading.Event()
    read_commit = tables.read_commit

    def held(table: Any, version: int) -> Any:
        is_held.wait(30)
        return read_commit(table, version)

    monkeypatch.setattr(tables, "read_commit", held)
    relay = started(settings, query, has_batches=False)
    assert hook.wait_for(1)
    for name in "bc":
        query.write(alert_row(name, "FIRING", START_MS))
    path = table_path(settings.paths.warehouse, "alerts")
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        (Path(path) / "_delta_log" / f"{version:020}.json").unlink()
    is_held.set()
    assert hook.wait_for(2)
    relay.stop()
    assert sorted(notified(hook)) == ["a firing", "b firing", "c firing"]


def test_a_mute_that_is_taken_out_of_a_file_mutes_no_longer(
    tmp_path: Path, hook: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The separate process reloads the file while it runs, and starts no JVM."""
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda *_, **__: pytest.fail("a JVM is started"))
    now, site = datetime.now(UTC), tmp_path / "site.toml"
    start, end = (f'"{now + timedelta(hours=hours):%H:%M}"' for hours in (-1, 1))
    site.write_text(f'[[mutes]]\nmatch = {{ cluster = "prod" }}\nfrom = {start}\nto = {end}\n')
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(site))
    monkeypatch.setattr(settings_reload, "LOOK_SECONDS", 0.1)
    settings = settings_of(tmp_path, hook.url)
    Query(Path(settings.paths.warehouse), settings.oncall).write(
        alert_row("a", "FIRING", START_MS), alert_row("b", "FIRING", START_MS, cluster="test")
    )
    stop = threading.Event()
    process = threading.Thread(target=relay_command._run, args=(settings, None, stop))
    process.start()
    try:
        assert hook.wait_for(1)
        assert notified(hook) == ["b firing"]
        site.write_text("")
        assert hook.wait_for(2)
    finally:
        stop.set()
        process.join(60)
    assert notified(hook) == ["b firing", "a firing"]


def leased(tmp_path: Path, url: str) -> Settings:
    return Settings.load(
        paths={"warehouse": tmp_path / "warehouse"},
        canary={"interval_seconds": 0},
        oncall={
            "receivers": [{"name": "am", "type": "alertmanager", "urls": [url]}],
            "routes": [{"name": "all", "receivers": ["am"]}],
            "poll_seconds": 0.05,
            "resend_seconds": 1,
        },
    )


def refuse_tables(monkeypatch: pytest.MonkeyPatch, *names: str, hangs: bool = False) -> threading.Event:
    """Every access to the tables fails, or hangs, until the event is set, as those of a bucket that is away."""
    is_back = threading.Event()
    is_back.set()
    for name in names:
        before = getattr(tables, name)

        def refuse(*given: Any, before: Any = before, **keys: Any) -> Any:
            if hangs:
                is_back.wait(60)
            if not is_back.is_set():
                raise OSError("503 SlowDown")
            return before(*given, **keys)

        monkeypatch.setattr(tables, name, refuse)
    is_back.clear()  # of all at once: a relay that could reopen one of them would report it again
    return is_back


@pytest.mark.parametrize(
    ("hangs", "is_renewed"), [(False, False), (False, True), (True, False)], ids=["fails", "settings change", "hangs"]
)
def test_tables_that_are_away_end_no_lease_and_what_comes_meanwhile_is_notified(
    tmp_path: Path, hook: FakeServer, monkeypatch: pytest.MonkeyPatch, hangs: bool, is_renewed: bool
) -> None:
    """Open alerts are renewed from memory, though neither the log, the silences nor the alerts can be read."""
    settings = leased(tmp_path, hook.url)
    query = Query(Path(settings.paths.warehouse), settings.oncall)
    relay = started(settings, query, has_batches=False)
    query.write(alert_row("a", "FIRING", START_MS))
    assert hook.wait_for(1)
    with capture_logs() as logs:
        accesses = ("catch_up", "open_table", "open_written", "read_commit")
        is_back = refuse_tables(monkeypatch, *accesses, hangs=hangs)
        if is_renewed:
            relay.renew(settings.model_copy(update={"mutes": ()}))
        before = len(hook.received)
        assert hook.wait_for(before + 3)
        assert relay.is_alive()
        query.write(alert_row("b", "FIRING", START_MS), is_handed_over=False)
        is_back.set()
        hook.wait_until(
            lambda received: any(
                one["annotations"]["incident_id"].startswith("b-") for call in received for one in call.fields
            ),
            "the alert of the outage",
        )
        relay.stop()
    said = [one["table"] for one in logs if one["event"] == "table not read, retrying"]
    assert sorted(said) == ([] if hangs else ["acknowledgements", "alerts", "silences"])


@pytest.mark.parametrize("content", [b"\0" * 200, b'{"commitInfo":{"time'], ids=["nulls", "cut"])
@pytest.mark.parametrize("table", [SILENCES, ACKNOWLEDGEMENTS], ids=lambda one: one.name)
@pytest.mark.parametrize("is_running", [False, True], ids=["at the start", "while it runs"])
def test_a_damaged_table_of_silences_or_acknowledgements_silences_nothing_and_stops_no_page(
    settings: Settings, hook: FakeServer, query: Query, table: Table, content: bytes, is_running: bool
) -> None:
    everything = Silence("s1", {"cluster": ("*",)}, "ada", "release", 0, 9_000_000_000_000)
    RelayTables(settings.paths.warehouse).add_silence(everything, START_MS)
    is_silenced = table is ACKNOWLEDGEMENTS
    open_table(settings.paths.warehouse, table)
    log = Path(table_path(settings.paths.warehouse, table.name)) / "_delta_log"
    version = len(list(log.glob("*.json")))
    damaged = log / f"{version:020}.json"

    def damage() -> None:
        """An intact commit follows: a damaged newest one would be set aside."""
        damaged.write_bytes(content)
        (log / f"{version + 1:020}.json").write_text('{"commitInfo":{"timestamp":1}}')

    with capture_logs() as logs:
        if is_running:
            relay = started(settings, query)
            relay.wait_until_up()
        damage()
        if not is_running:
            relay = started(settings, query)
        query.write(alert_row("a", "FIRING", START_MS), alert_row("b", "FIRING", START_MS, cluster="other"))
        if is_silenced:
            wait_for("it is logged", lambda: any(one["event"] == "table not read, retrying" for one in logs))
        else:
            assert hook.wait_for(2)
        relay.stop()
        DeltalakeWriter(settings.paths.warehouse)
    assert sorted(notified(hook)) == ([] if is_silenced else ["a firing", "b firing"])
    said = [one for one in logs if one["event"] == "table not read, retrying"]
    assert [(one["table"], one["file"]) for one in said] == [(table.name, str(damaged))]
    assert [one["table"] for one in logs if one["event"] == "table not opened"] == [table.name]


def test_a_read_that_failed_is_repeated_without_another_batch(
    settings: Settings, hook: FakeServer, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = started(settings, query)
    relay.wait_until_up()
    wait_for("all rows are read", lambda: not relay._wants_rows)
    is_back = refuse_tables(monkeypatch, "catch_up")
    query.write(alert_row("a", "FIRING", START_MS), is_handed_over=False)
    relay.look()
    threading.Timer(0.5, is_back.set).start()
    assert hook.wait_for(1)
    relay.stop()
    assert notified(hook) == ["a firing"]
