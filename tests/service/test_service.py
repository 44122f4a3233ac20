"""The parts of a service, their start and end, and the settings that reach them; without Spark or Kafka."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest
from structlog.testing import capture_logs

from conf.settings import Settings, SettingsError
from streaming.queries.written_batch import WrittenBatch
from streaming.service import service as module
from streaming.service.service import BUSY_STARTS, Service, ServiceError
from streaming.system.known_error import BalancewatchError
from streaming.system.stopping import StoppedError

PARTS = (
    "CanaryThread ClockPublisher DataLoss DeltalakeWriter Inspector Relay SettingsReload create_topics "
    "refuse_losses refuse_other_tasks start_query start_spark"
)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> dict[str, MagicMock]:
    mocks = {name: MagicMock() for name in PARTS.split()}
    for name, mock in mocks.items():
        monkeypatch.setattr(module, name, mock)
    monkeypatch.setattr(module, "balance", MagicMock(NAME="balance"))
    mocks["start_query"].return_value.query.exception.return_value = None
    mocks["start_query"].return_value.sink.busy_since = None
    mocks["SettingsReload"].return_value.look_now_and_then.return_value = None
    return mocks


@pytest.mark.parametrize(
    ("every", "keys", "injects", "expects"),
    [
        (300, {"with_canary": True, "notifies": True}, True, True),
        (300, {"with_canary": True, "notifies": False}, True, None),
        (300, {"with_canary": True, "notifies": True, "available_now": True}, False, False),
        (300, {"notifies": True}, False, False),
        (300, {}, False, None),
        (0, {"with_canary": True}, False, None),
    ],
)
def test_the_canary_is_injected_with_and_without_the_relay_but_not_at_an_interval_of_0(
    parts: dict[str, MagicMock], every: int, keys: dict[str, Any], injects: bool, expects: bool | None
) -> None:
    """The relay of another process receives it too; the relay of a run without canaries expects none."""
    Service(Settings.load(canary={"interval_seconds": every}), **keys).close()
    assert parts["CanaryThread"].called is injects
    made = parts["Relay"].call_args
    assert (None if made is None else made.kwargs["has_canary"]) is expects


@pytest.mark.parametrize(
    ("changed", "changes"),
    [
        ("rules", {"rules": {"settle_ms": 12}}),
        ("oncall", {"oncall": {"max_firing_per_kind": 12}}),
        ("mutes", {"mutes": [{"match": {"cluster": "*"}, "from": "22:00", "to": "06:00"}]}),
    ],
)
def test_changed_rules_reach_the_query_and_changed_notification_settings_the_relay(
    parts: dict[str, MagicMock], changed: str, changes: dict[str, Any]
) -> None:
    before, after = Settings.load(), Settings.load(**changes)
    service = Service(before, notifies=True)
    parts["SettingsReload"].return_value.look_now_and_then.side_effect = [after, None]
    for _ in range(2):
        service._take_changed_rules()
    assert parts["start_query"].call_count == (2 if changed == "rules" else 1)
    renew = parts["Relay"].return_value.renew
    assert [call.args for call in renew.call_args_list] == ([] if changed == "rules" else [(after,)])
    service.close()


def test_instruments_receive_batches_rule_changes_and_threads_and_end_first(
    parts: dict[str, MagicMock],
) -> None:
    """They begin before the query, whose first batch they must not miss."""
    before = Settings.load()
    after = before.model_copy(update={"rules": before.rules.model_copy(update={"settle_ms": 12})})
    parts["SettingsReload"].return_value.look_now_and_then.side_effect = [after, None]
    instruments = MagicMock()
    parts["start_query"].side_effect = lambda *_, **__: instruments.query_started() or MagicMock()
    service = Service(before, notifies=True, with_canary=True, instruments=instruments)
    service._on_batch(WrittenBatch("balance", 3, {"alerts": []}))
    for _ in range(2):
        service._take_changed_rules()
    watched = {call.args[0] for call in instruments.liveness.watch.call_args_list}
    service.close()
    reported = [name for name, _, _ in instruments.mock_calls]
    assert (
        reported.index("begin")
        < reported.index("query_started")
        < reported.index("on_batch")
        < reported.index("take_rules")
        < reported.index("liveness.stop")
    )
    assert reported.count("take_rules") == 1
    assert {"relay", "clock-keeper", "canary"} <= watched
    assert parts["Relay"].call_args.kwargs["listener"] is instruments.deliveries


def test_a_batch_goes_once_to_each_listener_and_alerts_of_no_batch_to_the_relay(
    parts: dict[str, MagicMock],
) -> None:
    instruments, listener, batch = MagicMock(), MagicMock(), WrittenBatch("balance", 3, {"alerts": []})
    service = Service(Settings.load(), notifies=True, instruments=instruments, listeners=(listener,))
    service._on_batch(batch)
    made = [parts[name].return_value for name in ("Relay", "DataLoss", "ClockPublisher", "Inspector")]
    for one in (*made, instruments, listener):
        one.on_batch.assert_called_once_with(batch)
    for name in ("DataLoss", "Inspector"):
        assert parts[name].call_args.args[2] == service._on_alerts
    service._on_alerts([{"kind": "data_loss"}])
    made[0].look.assert_called_once_with()
    service.close()


def test_the_age_of_the_query_grows_after_its_announced_rest(
    parts: dict[str, MagicMock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the relay, whose watchdog attests that the query works, and for the metrics."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    instruments = MagicMock()
    service = Service(Settings.load(), notifies=True, instruments=instruments)
    progress, listener = parts["Relay"].call_args.args[1], parts["start_query"].call_args.kwargs["rest_listener"]
    ages = []
    for act in (
        lambda: listener.rests("balance", 60.0),
        lambda: listener.rested("balance", 3, 70.0),
        lambda: service._on_batch(WrittenBatch("balance", 4, {})),
    ):
        act()
        ages.append(progress()[0])
        now[0] += 70
        ages.append(progress()[0])
    assert ages == [0, 10, 0, 70, 0, 70]
    service.close()
    instruments.liveness.rests.assert_called_once_with(60.0)
    instruments.liveness.rested.assert_called_once_with(3, 70.0)


def test_the_inspector_knows_the_length_of_a_simulated_past(parts: dict[str, MagicMock]) -> None:
    Service(Settings.load(), past_ms=900_000).close()
    assert parts["Inspector"].call_args.args[-1] == 900_000


LATE = RuntimeError("[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back.\n\tat x")


def failed_query(error: Exception) -> MagicMock:
    return MagicMock(query=MagicMock(isActive=False, exception=MagicMock(return_value=error)))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_LEAST_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_query_whose_python_came_late_starts_again(parts: dict[str, MagicMock]) -> None:
    parts["start_query"].side_effect = [failed_query(LATE), MagicMock()]
    with Service(Settings.load()) as service:
        service.wait(threading.Event(), 3)
    assert parts["start_query"].call_count == 2


@pytest.mark.usefixtures("impatient")
def test_a_machine_that_stays_too_busy_ends_the_service(parts: dict[str, MagicMock]) -> None:
    parts["start_query"].side_effect = lambda *_, **__: failed_query(LATE)
    with Service(Settings.load()) as service, pytest.raises(ServiceError, match="Python worker failed to connect back"):
        service.wait(threading.Event(), 30)
    assert parts["start_query"].call_count == 1 + BUSY_STARTS


@pytest.mark.usefixtures("impatient")
def test_a_batch_resets_the_count_of_late_python_workers(parts: dict[str, MagicMock]) -> None:
    with Service(Settings.load()) as service:
        for _ in range(2 * BUSY_STARTS):
            service.running = failed_query(LATE)
            service._restart_failed_query()  # begins the pause
            service._restart_failed_query()
            service._on_batch(WrittenBatch("balance", 1, {}))


def test_another_failure_ends_the_service_at_once(parts: dict[str, MagicMock]) -> None:
    parts["start_query"].return_value = failed_query(RuntimeError("java.lang.IllegalStateException: the cause"))
    with Service(Settings.load()) as service, pytest.raises(ServiceError, match="the cause"):
        service.wait(threading.Event(), 30)
    assert parts["start_query"].call_count == 1


class AwayError(BalancewatchError):
    """Kafka, or another part, is away."""


def test_the_relay_renews_while_kafka_is_away_and_the_query_starts_once_it_is_back(
    parts: dict[str, MagicMock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_LEAST_SECONDS", 0.01)
    relay, asked = parts["Relay"].return_value, []

    def ask(*_: object) -> None:
        asked.append((relay.start.called, relay.stop.called))
        if len(asked) < 4:
            raise AwayError("Kafka does not answer at kafka-1:9092")

    parts["create_topics"].side_effect = ask
    with capture_logs() as logs, Service(Settings.load(), notifies=True, retries=True):
        assert asked == [(True, False)] * 4
        assert parts["start_query"].call_count == 1
    assert relay.stop.called
    logged = [(one["reason"], one["retry_in"]) for one in logs if one["event"] == "query not started, retrying"]
    assert logged == [("Kafka does not answer at kafka-1:9092", pause) for pause in (0.01, 0.02, 0.04)]


def test_the_relay_ends_after_the_query_and_before_the_tables_and_spark(
    parts: dict[str, MagicMock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay delivers the alerts of the last batch; the tables are compacted once more without it."""
    monkeypatch.setattr(module, "TableKeeper", keeper := MagicMock())
    stops = {
        "query": parts["start_query"].return_value.stop,
        "relay": parts["Relay"].return_value.stop,
        "tables": keeper.return_value.stop,
        "spark": parts["start_spark"].return_value.stop,
    }
    ended: dict[str, None] = {}
    for name, stop in stops.items():
        stop.side_effect = partial(ended.setdefault, name)
    Service(Settings.load(), notifies=True).close()
    assert [*ended] == [*stops]


@pytest.mark.parametrize(
    "part",
    ["refuse_other_tasks", "refuse_losses", "start_spark", "DeltalakeWriter", "DataLoss", "Inspector", "start_query"],
)
def test_each_part_that_fails_at_the_start_is_retried_and_the_relay_continues(
    parts: dict[str, MagicMock], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(module, "RETRY_LEAST_SECONDS", 0.01)
    works = parts[part].return_value
    parts[part].side_effect = [AwayError("no"), OSError(28, "No space left on device"), works]
    with Service(Settings.load(quality={"every_batches": 0}), notifies=True, retries=True):
        assert parts[part].call_count == 3
        assert not parts["Relay"].return_value.stop.called


def test_a_stop_ends_the_retries_and_the_relay(parts: dict[str, MagicMock]) -> None:
    stop = threading.Event()

    def ask(*_: object) -> None:
        stop.set()
        raise AwayError("no")

    parts["create_topics"].side_effect = ask
    with pytest.raises(StoppedError):
        Service(Settings.load(), notifies=True, retries=True, stop=stop)
    assert parts["Relay"].return_value.stop.called
    assert not parts["start_spark"].called


@pytest.mark.parametrize(("retries", "error"), [(False, AwayError("no")), (True, SettingsError("kafka.x = 1: no"))])
def test_without_retries_or_for_refused_settings_a_failure_ends_the_start_and_the_relay(
    parts: dict[str, MagicMock], retries: bool, error: Exception
) -> None:
    parts["create_topics"].side_effect = error
    with pytest.raises(type(error)):
        Service(Settings.load(), notifies=True, retries=retries)
    assert parts["Relay"].return_value.stop.called


def test_a_query_that_fails_repeatedly_is_restarted_with_backoff_and_the_relay_continues(
    parts: dict[str, MagicMock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch in between ends the backoff; a start that fails counts as a failure."""
    monkeypatch.setattr(module, "RETRY_LEAST_SECONDS", 0.01)
    failed = failed_query(RuntimeError("java.lang.IllegalStateException: the cause"))
    works = MagicMock()
    stop = threading.Event()
    results: Iterator[Any] = iter([failed, failed, AwayError("no Kafka"), works])

    def start(*_: object, **__: object) -> Any:
        result = next(results)
        if result is works:
            stop.set()
        if isinstance(result, Exception):
            raise result
        return result

    parts["start_query"].side_effect = start
    with capture_logs() as logs, Service(Settings.load(), notifies=True, retries=True) as service:
        service.wait(stop, 60)
        assert parts["start_query"].call_count == 4
        assert service.running is works
        assert not parts["Relay"].return_value.stop.called
        service._on_batch(WrittenBatch("balance", 1, {}))
        assert service._failures == 0
    pauses = [one["retry_in"] for one in logs if one["event"] == "query failed, retrying"]
    assert pauses == [0.01, 0.02, 0.04]
    assert "the cause" in next(one["reason"] for one in logs if one["event"] == "query failed, retrying")


def test_a_failure_is_known_after_a_minute_and_until_the_next_batch(
    parts: dict[str, MagicMock], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    service = Service(Settings.load(), notifies=True, retries=True)
    failure = service.failure
    service.running = failed_query(RuntimeError("java.lang.IllegalStateException: the cause"))
    known = [failure()]
    for seconds in (0.0, 59.0, 1.0):
        now[0] += seconds
        service._restart_failed_query()
        known.append(failure())
    service._on_batch(WrittenBatch("balance", 1, {}))
    known.append(failure())
    now[0] += 1_000  # no events come
    known.append(failure())
    parts["start_query"].return_value.sink.busy_since = now[0]
    now[0] += 121
    known.append(failure())
    service.close()
    assert known[:3] == [None, None, None]
    assert "the cause" in str(known[3])
    assert known[4:] == ["", "", "a micro-batch takes more than 120 s"]


@pytest.mark.parametrize("available_now", [False, True])
def test_what_ends_a_lasting_run_is_known_to_the_relay_when_it_stops(
    parts: dict[str, MagicMock], available_now: bool
) -> None:
    seen: list[str | None] = []
    relay = parts["Relay"].return_value
    relay.stop.side_effect = lambda: seen.append(parts["Relay"].call_args.args[1]()[1])
    receivers = [{"name": "hook", "type": "webhook", "url": "http://127.0.0.1:9"}]
    settings = Settings.load(oncall={"receivers": receivers, "routes": [{"name": "all", "receivers": ["hook"]}]})
    service = Service(settings, notifies=True, available_now=available_now)
    service.__exit__(ServiceError, ServiceError("the disk is full"), None)
    parts["start_query"].side_effect = SettingsError("queries.tasks = 3: the checkpoint has 2")
    with pytest.raises(SettingsError):
        Service(settings, notifies=True, available_now=available_now)
    reasons = [None] * 3 if available_now else ["the disk is full"] * 2 + ["queries.tasks = 3: the checkpoint has 2"]
    assert seen == reasons


def test_a_stopped_run_has_not_failed(parts: dict[str, MagicMock]) -> None:
    stop = threading.Event()
    service = Service(Settings.load(), notifies=True, stop=stop)
    stop.set()
    service.__exit__(RuntimeError, RuntimeError("a consequence"), None)
    assert service.failure() is None
