"""The relay on real Delta tables and a real webhook over HTTP: what arrives, what is logged, and after a restart."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from conf.oncall import OnCall
from conf.settings import Settings
from streaming.maintenance import table_keeper
from streaming.relay.notice import Now, start_clock
from streaming.relay.outbox import Send
from streaming.relay.own_alerts import Progress, canary_lost
from streaming.relay.receivers import make_receivers, make_routes
from streaming.relay.receivers.posting import Answer, Traits
from streaming.relay.relay import Relay, RelayListener, call
from streaming.relay.tables import RelayTables
from streaming.self_monitoring.self_alerts import SelfAlerts
from streaming.text.times import wall_ms
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.relay.fakes import FakeServer, Reply, Reset
from tests.relay.stage import START_MS, Row, alert_row
from udfs.alerts.silence import Silence

SECONDS = 20.0
"""No test waits so long unless it fails."""


def keys_of(url: str) -> dict[str, Any]:
    return {
        "receivers": [{"name": "hook", "type": "webhook", "url": url}],
        "routes": [{"name": "all", "receivers": ["hook"]}],
        "backoff_min_seconds": 0.01,
        "backoff_max_seconds": 0.02,
        "poll_seconds": 0.05,
    }


def settings_of(url: str, **keys: Any) -> OnCall:
    return Settings.load(oncall=keys_of(url) | keys).oncall


def relay_of(
    settings: OnCall,
    warehouse: Path,
    *,
    now_ms: Callable[[], int] = wall_ms,
    progress: Progress | None = None,
    listener: RelayListener | None = None,
) -> Relay:
    """A relay that has loaded the tables."""
    loaded = Settings.load(paths={"warehouse": warehouse}).model_copy(update={"oncall": settings})
    relay = Relay(loaded, progress, listener=listener, now=start_clock(now_ms))
    relay.load()
    return relay


def alert_rows(warehouse: Path, *columns: str) -> list[Row]:
    rows: list[Row] = DeltaTable(table_path(warehouse, "alerts")).to_pyarrow_table(columns=list(columns)).to_pylist()
    return rows


class Scene:
    """A warehouse, and relays on it."""

    def __init__(self, warehouse: Path, settings: OnCall) -> None:
        self.warehouse, self.settings = warehouse, settings
        self.writer = DeltalakeWriter(warehouse)
        self.batches = 0

    def write(self, *rows: Row) -> None:
        append_rows(self.writer, {"alerts": list(rows)}, "app", self.batches)
        self.batches += 1

    def log(self) -> list[Row]:
        rows = DeltaTable(table_path(self.warehouse, "alert_deliveries"))
        found: list[Row] = sorted(rows.to_pyarrow_table().to_pylist(), key=lambda row: row["batch_id"])
        return found

    @contextmanager
    def relay(self, now_ms: Callable[[], int] = wall_ms) -> Iterator[Relay]:
        made = relay_of(self.settings, self.warehouse, now_ms=now_ms)
        try:
            yield made
        finally:
            made.close()

    def deliver(self) -> int:
        with self.relay() as relay:
            return relay.finish(SECONDS)


def notified(hook: FakeServer) -> list[str]:
    return [f"{one['fingerprint']} {one['status']}" for call in hook.received for one in call.fields["alerts"]]


@pytest.fixture
def scene(tmp_path: Path, hook: FakeServer) -> Scene:
    """A relay has looked before anything was in the table, and before anything that is written to it."""
    scene = Scene(tmp_path, settings_of(hook.url))
    with scene.relay(lambda: START_MS - 1) as relay:
        assert relay.finish(SECONDS) == 0
    return scene


def test_what_fired_and_what_ended_arrives_in_order_and_is_logged(scene: Scene, hook: FakeServer) -> None:
    scene.write(alert_row("m", "PENDING", START_MS), alert_row("m", "FIRING", START_MS + 1))
    scene.write(alert_row("m", "RECOVERING", START_MS + 2), alert_row("m", "RESOLVED", START_MS + 3))
    scene.deliver()
    scene.deliver()
    assert notified(hook) == ["m firing", "m resolved"]
    rows = scene.log()
    assert [(row["status"], row["outcome"], row["receiver"], row["route"]) for row in rows if row["code"]] == [
        ("firing", "DELIVERED", "hook", "all"),
        ("resolved", "DELIVERED", "hook", "all"),
    ]
    assert {row["delivery_key"] for row in rows} == {
        f"m-{START_MS}:firing:{START_MS + 1}",
        f"m-{START_MS}:resolved:{START_MS + 3}",
    }


def test_what_was_over_before_the_first_relay_is_history_and_what_was_open_is_notified(
    tmp_path: Path, hook: FakeServer
) -> None:
    scene = Scene(tmp_path, settings_of(hook.url))
    scene.write(alert_row("old", "FIRING", START_MS), alert_row("old", "RESOLVED", START_MS + 1))
    scene.write(alert_row("open", "FIRING", START_MS))
    scene.deliver()
    scene.deliver()
    assert notified(hook) == ["open firing"]


def test_a_rewound_query_that_writes_every_row_again_reports_nothing_again(scene: Scene, hook: FakeServer) -> None:
    """What checkpoints/README.md promises of a rewind over kept tables: incident ids are the same."""
    rows = [
        alert_row("over", "FIRING", START_MS),
        alert_row("open", "FIRING", START_MS + 1),
        alert_row("over", "RESOLVED", START_MS + 2),
    ]
    scene.write(*rows)
    scene.deliver()
    scene.write(*rows)
    scene.deliver()
    with scene.relay() as relay:
        scene.write(*rows)
        assert relay.finish(SECONDS) == 0
    assert sorted(notified(hook)) == ["open firing", "over firing", "over resolved"]


@pytest.mark.parametrize("is_running", [True, False], ids=["while it runs", "before it starts again"])
def test_of_what_an_empty_table_is_filled_with_only_what_is_open_is_notified(
    tmp_path: Path, hook: FakeServer, is_running: bool
) -> None:
    """The first start on an old Kafka: the week before it is history, though the relay looked before it was written."""
    scene = Scene(tmp_path, settings_of(hook.url))
    rows = [alert_row("old", "FIRING", START_MS), alert_row("old", "RESOLVED", START_MS + 1)]
    rows += [alert_row("older", "PENDING", START_MS), alert_row("open", "FIRING", START_MS)]
    later = [alert_row("older", "FIRING", START_MS + 1), alert_row("older", "RESOLVED", START_MS + 2)]
    later += [alert_row("open", "RESOLVED", START_MS + 9_999)]
    with scene.relay(lambda: START_MS + 5_000) as relay:
        relay.finish(SECONDS)
        for some in (rows, later):
            scene.write(*some)
            if is_running:
                relay.finish(SECONDS)
    scene.deliver()
    assert notified(hook) == ["open firing", "open resolved"]


def test_files_of_the_log_that_run_takes_together_say_the_same(
    scene: Scene, hook: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_keeper, "TIERS", ((table_keeper.TIERS[0][0], 5),))
    for number in range(4):
        scene.write(alert_row(f"m{number}", "FIRING", START_MS + number))
        scene.deliver()
    before = {tuple(row.items()) for row in scene.log()}
    table_keeper.TableKeeper(Settings.load(paths={"warehouse": scene.warehouse})).keep()
    assert len(DeltaTable(table_path(scene.warehouse, "alert_deliveries")).file_uris()) == 1
    assert {tuple(row.items()) for row in scene.log()} == before
    scene.deliver()
    assert len(notified(hook)) == 4


def test_a_relay_that_expects_no_canary_leaves_the_lost_one_to_the_relay_that_does(scene: Scene) -> None:
    scene.write(SelfAlerts().open(canary_lost(), START_MS))
    scene.deliver()
    rows = alert_rows(scene.warehouse, "kind", "state")
    assert [row["state"] for row in rows if row["kind"] == "canary_lost"] == ["FIRING"]


def test_a_relay_that_could_deliver_nothing_leaves_everything_to_the_next(scene: Scene, hook: FakeServer) -> None:
    hook.script(*[Reset()] * 3, Reply(503))
    scene.write(alert_row("m", "FIRING", START_MS), alert_row("m", "RESOLVED", START_MS + 5))
    with scene.relay() as relay:
        assert relay.finish(0.0) == 2
    assert scene.deliver() == 0 or scene.deliver() == 0
    accepted = [row["status"] for row in scene.log() if row["outcome"] == "DELIVERED"]
    assert accepted == ["firing", "resolved"]
    failed = [row for row in scene.log() if row["outcome"] == "RETRYING"]
    assert failed
    assert failed[0]["code"] is None


def test_people_are_notified_even_when_the_log_cannot_be_written(
    scene: Scene, hook: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    scene.write(alert_row("m", "FIRING", START_MS))
    with scene.relay() as relay:
        monkeypatch.setattr(relay.owed.log._tables, "append", fail)
        relay.finish(SECONDS)
        monkeypatch.undo()
        assert notified(hook) == ["m firing"]
    assert [row["outcome"] for row in scene.log()] == ["PENDING", "DELIVERED"]
    assert "no space left on device" in "".join(capsys.readouterr())  # wherever logs go


def test_a_silence_that_is_added_while_it_runs_is_obeyed(scene: Scene, hook: FakeServer) -> None:
    now_ms = wall_ms()
    silence = Silence("s1", {"consumer_group": ("bill*",)}, "ada", "release", now_ms, now_ms + 3_600_000)
    with scene.relay() as relay:
        RelayTables(scene.warehouse).add_silence(silence, now_ms)
        while not relay.owed._silences:
            relay.step(0.1)
        rows = [alert_row(name, "FIRING", START_MS, consumer_group=name) for name in ("bills", "x")]
        scene.write(*rows)
        relay.look()
        relay.step(0.1)
        relay.finish(SECONDS)
    assert notified(hook) == ["x firing"]
    assert [(row["incident_id"], row["reason"]) for row in scene.log() if row["outcome"] == "SILENCED"] == [
        (f"bills-{START_MS}", "s1")
    ]


@pytest.mark.parametrize(("age", "comes"), [(None, True), (1.0, True), (121.0, False)])
def test_the_watchdog_comes_while_the_queries_make_progress(
    tmp_path: Path, hook: FakeServer, age: float | None, comes: bool
) -> None:
    """Without queries it is sent too, and says that it covers only the relay."""
    route = {"name": "dog", "match": {"kind": "watchdog"}, "receivers": ["hook"]}
    settings = settings_of(hook.url, routes=[route, {"name": "all", "receivers": ["hook"]}])
    relay = relay_of(settings, tmp_path, progress=None if age is None else lambda: (age, ""))
    relay.finish(SECONDS)
    relay.close()
    summaries = [one["annotations"]["summary"] for call in hook.received for one in call.fields["alerts"]]
    assert bool(summaries) is comes
    if comes:
        assert ("does not cover the queries" in summaries[0]) is (age is None)


def test_a_failing_run_is_notified_without_secrets_and_resolved_by_the_next_that_has_a_batch(
    tmp_path: Path, hook: FakeServer
) -> None:
    settings = settings_of(hook.url)
    for why in ("no answer from https://user:hunter2@kafka:9092", None, "", ""):
        relay = relay_of(settings, tmp_path, progress=partial(tuple, (1.0, why)))
        relay.finish(SECONDS)
        relay.close()
    sent = [one for call in hook.received for one in call.fields["alerts"]]
    assert [(one["labels"]["alertname"], one["status"]) for one in sent] == [
        ("run_failing", "firing"),
        ("run_failing", "resolved"),
    ]
    assert sent[0]["annotations"]["summary"].endswith("no answer from https://***@kafka:9092.")
    assert "hunter2" not in str(sent)


def hours_left(manager: FakeServer) -> dict[str, int]:
    """Alert → hours of its newest lease."""
    posted = [one for call in manager.received for one in call.fields]
    ends = {one["labels"]["alertname"]: datetime.fromisoformat(one["endsAt"]).timestamp() for one in posted}
    return {name: round((end - time.time()) / 3600) for name, end in ends.items()}


def test_leases_last_for_hours_after_a_run_that_failed(tmp_path: Path) -> None:
    """No renewal follows, and the alerts that are open then still hold."""
    manager = FakeServer()
    settings = settings_of(manager.url, receivers=[{"name": "hook", "type": "alertmanager", "urls": [manager.url]}])
    scene = Scene(tmp_path, settings)
    scene.write(alert_row("m", "FIRING", START_MS))
    hours = []
    for progress in (None, lambda: (math.inf, "the disk is full")):
        relay = relay_of(settings, tmp_path, progress=progress)
        relay.finish(SECONDS)
        relay.close()
        hours.append(hours_left(manager))
    manager.close()
    assert hours == [
        {alert_row("m", "FIRING", 0)["kind"]: 0},
        {alert_row("m", "FIRING", 0)["kind"]: 12, "run_failing": 12},
    ]


def test_a_receiver_that_raises_has_failed_this_time_and_shows_nothing_of_what_it_raised() -> None:
    class Raising:
        name, traits = "r", Traits()

        def send(self, notices: object, now_ms: int) -> Answer:
            raise ValueError("hunter2")

        def close(self) -> None: ...

    answer, _ = call(Raising(), Send("r", ()), Now(0, 0))
    assert (answer.verdict, answer.code, answer.reason) == ("RETRY", None, "internal error in the receiver: ValueError")


def test_each_replica_of_alertmanager_is_a_receiver_of_its_own() -> None:
    settings = settings_of(
        "",
        receivers=[{"name": "am", "type": "alertmanager", "urls": ["http://a:9093", "http://b:9093"]}],
        routes=[{"name": "all", "receivers": ["am"]}],
    )
    receivers = make_receivers(settings)
    assert list(receivers) == ["am[0]", "am[1]"]
    assert make_routes(settings)[0].receivers == ("am[0]", "am[1]")
    for receiver in receivers.values():
        receiver.close()


def test_the_default_reports_the_log_alone() -> None:
    settings = Settings.load().oncall
    assert [receiver.type for receiver in settings.receivers] == ["log"]
