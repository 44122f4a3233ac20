"""Signs of life: reported by the listener, with ages that grow; and the rules of /healthz and /readyz."""

import threading
from typing import Any
from unittest.mock import MagicMock

import pytest

from streaming.metrics import liveness as module
from streaming.metrics.exporter import Exporter
from streaming.metrics.liveness import Liveness
from streaming.metrics.spark_listener import Listener
from tests.metrics.samples import value
from tests.metrics.test_batches import SAMPLE

LATE, HUNG = 60, 600


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def started() -> tuple[Exporter, Liveness, Clock]:
    exporter, clock = Exporter(), Clock()
    liveness = Liveness(exporter, "balance", clock)
    liveness.has_jvm = False
    liveness.started()
    return exporter, liveness, clock


def age_in(exporter: Exporter) -> float | None:
    return value(exporter, "balancewatch_progress_age_seconds", query="balance")


def reasons(liveness: Liveness) -> list[str]:
    return list(liveness.reasons_not_ready(LATE))


@pytest.mark.parametrize("report", [lambda liveness: liveness.progressed(SAMPLE), lambda liveness: liveness.idled()])
def test_a_batch_and_an_idle_query_are_signs_of_life(report: Any) -> None:
    exporter, liveness, clock = started()
    assert reasons(liveness) == ["the query balance has not finished its first batch"]
    clock.now += 90
    report(liveness)
    assert reasons(liveness) == []
    assert age_in(exporter) == 0


def test_the_age_grows_only_after_the_announced_pause_or_its_end() -> None:
    exporter, liveness, clock = started()
    ages = []
    for act, seconds in (
        (lambda: liveness.rests(60), 59),
        (lambda: None, 31),
        (lambda: liveness.rested(3, 1), 7),
    ):
        act()
        clock.now += seconds
        ages.append(age_in(exporter))
    assert ages == [0, 30, 7]


def test_a_query_restarted_for_changed_rules_counts_as_having_worked() -> None:
    exporter, liveness, _ = started()
    liveness.idled()
    liveness.ended()
    assert reasons(liveness) == ["the query balance has stopped"]
    liveness.started()
    assert reasons(liveness) == []
    assert value(exporter, "balancewatch_query_starts_total", query="balance") == 2


def test_the_age_of_a_silent_jvm_grows_without_blocking_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that calls the JVM hangs with it; the age is computed at each scrape."""
    monkeypatch.setattr(module, "ASK_SECONDS", 0.001)
    asked, hang = threading.Event(), threading.Event()
    runtime = MagicMock()
    runtime.totalMemory.return_value, runtime.freeMemory.return_value, runtime.maxMemory.return_value = 10, 4, 20
    answers = iter(range(2))

    def total() -> int:
        if next(answers, None) is None:
            asked.set()
            hang.wait(30)
        return 10

    runtime.totalMemory.side_effect = total
    exporter, clock = Exporter(), Clock()
    liveness = Liveness(exporter, "balance", clock)
    liveness.started()
    liveness.idled()
    assert reasons(liveness) == ["Spark is starting"]
    liveness.ask_jvm(runtime)
    assert asked.wait(30)
    assert value(exporter, "balancewatch_jvm_heap_bytes") == 6
    clock.now += 75
    liveness.idled()
    assert reasons(liveness) == list(liveness.reasons_not_alive(LATE)) == ["the JVM has not answered for 75 s"]
    assert list(liveness.reasons_not_alive(HUNG)) == []
    assert value(exporter, "balancewatch_jvm_age_seconds") == 75
    hang.set()
    liveness.stop()


def test_a_dead_thread_is_reported_until_the_service_ends() -> None:
    exporter, liveness, _ = started()
    alive = [True]
    liveness.watch("relay", lambda: alive[0])
    liveness.watch("canary", lambda: True)
    assert list(liveness.reasons_not_alive(LATE)) == []
    alive[0] = False
    assert list(liveness.reasons_not_alive(LATE)) == ["the thread relay is dead"]
    assert "the thread relay is dead" in reasons(liveness)
    assert value(exporter, "balancewatch_part_alive", part="relay") == 0
    liveness.stop()
    assert list(liveness.reasons_not_alive(LATE)) == []


def event(name: str = "balance", progress: str = "{}", run: str = "1") -> MagicMock:
    made = MagicMock()
    made.id.return_value.toString.return_value = f"id of {name}"
    made.runId.return_value.toString.return_value = f"run {run} of {name}"
    made.name.return_value = name
    made.progress.return_value.json.return_value = progress
    return made


def test_the_listener_reports_its_query_and_no_other() -> None:
    liveness = MagicMock(query="balance")
    listener = Listener(liveness)
    for name in ("balance", "another"):
        listener.onQueryStarted(event(name))
        listener.onQueryIdle(event(name))
        listener.onQueryProgress(event(progress=f'{{"name": "{name}"}}'))
        listener.onQueryTerminated(event(name))
    assert [(call[0], call.args) for call in liveness.mock_calls] == [
        ("started", ()),
        ("idled", ()),
        ("progressed", ({"name": "balance"},)),
        ("ended", ()),
    ]


def test_a_late_report_of_an_earlier_runs_end_does_not_end_the_next_run() -> None:
    _, liveness, _ = started()
    listener = Listener(liveness)
    listener.onQueryStarted(event(run="1"))
    listener.onQueryStarted(event(run="2"))
    listener.onQueryTerminated(event(run="1"))
    assert reasons(liveness) == ["the query balance has not finished its first batch"]
    listener.onQueryTerminated(event(run="2"))
    assert reasons(liveness) == ["the query balance has stopped"]


def test_failures_in_the_listener_are_contained() -> None:
    """Spark's bus would drop the listener otherwise."""
    liveness = MagicMock(query="balance")
    liveness.progressed.side_effect = KeyError("durationMs")
    Listener(liveness).onQueryProgress(event(progress='{"name": "balance"}'))
    Listener(liveness).onQueryProgress(event(progress="no JSON"))
    assert liveness.progressed.call_count == 1


@pytest.mark.parametrize(
    ("seconds", "alive", "ready"),
    [
        (LATE, [], []),
        (LATE + 1, [], ["the query balance has shown no progress for 61 s"]),
        (HUNG + 1, *2 * [["the query balance has shown no progress for 601 s"]]),
    ],
)
def test_a_hanging_query_is_not_ready_and_later_not_alive(seconds: float, alive: list[str], ready: list[str]) -> None:
    _, liveness, clock = started()
    liveness.idled()
    clock.now += seconds
    assert list(liveness.reasons_not_alive(HUNG)) == alive
    assert reasons(liveness) == ready


def test_a_starting_process_is_alive_and_not_ready() -> None:
    liveness = Liveness(Exporter(), "balance")
    assert list(liveness.reasons_not_alive(HUNG)) == []
    assert reasons(liveness) == ["Spark is starting", "the query balance has not started"]
