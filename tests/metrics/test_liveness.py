"""Signs of life: reported by the listener, with ages that grow; and the rules of /healthz and /readyz."""

import threading
from typing import Any
from unittest.mock import MagicMock

import pytest

from streaming.metrics import liveness as module
from streaming.metrics.exporter import Exporter
from streaming.metrics.liveness import (
    Listener,
    Liveness,
    QuerySigns,
    Signs,
    reasons_not_alive,
    reasons_not_ready,
)
from tests.metrics.samples import value
from tests.metrics.test_batches import SAMPLE


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def started() -> tuple[Exporter, Liveness, Clock]:
    exporter, clock = Exporter(), Clock()
    liveness = Liveness(exporter, ["balance"], clock)
    liveness.started("balance")
    return exporter, liveness, clock


def signs_of(liveness: Liveness) -> Any:
    return liveness.signs().queries["balance"]


def test_the_age_of_a_hanging_query_grows() -> None:
    exporter, liveness, clock = started()
    clock.now += 90
    assert value(exporter, "balancewatch_progress_age_seconds", query="balance") == 90
    assert signs_of(liveness).age_seconds == 90


@pytest.mark.parametrize(
    "report", [lambda liveness: liveness.progressed(SAMPLE), lambda liveness: liveness.idled("balance")]
)
def test_a_batch_and_an_idle_query_are_signs_of_life(report: Any) -> None:
    exporter, liveness, clock = started()
    assert not signs_of(liveness).has_worked
    clock.now += 90
    report(liveness)
    assert signs_of(liveness).has_worked
    assert value(exporter, "balancewatch_progress_age_seconds", query="balance") == 0


def test_the_age_grows_only_after_the_announced_pause() -> None:
    _, liveness, clock = started()
    liveness.rests("balance", 60)
    clock.now += 59
    assert signs_of(liveness).age_seconds == 0
    clock.now += 31
    assert signs_of(liveness).age_seconds == 30


def test_after_a_pause_the_age_grows_from_its_end() -> None:
    _, liveness, clock = started()
    liveness.rests("balance", 60)
    clock.now += 1
    liveness.rested("balance", 3, 1)
    clock.now += 7
    assert signs_of(liveness).age_seconds == 7


def test_a_query_restarted_for_changed_rules_counts_as_having_worked() -> None:
    exporter, liveness, _ = started()
    liveness.idled("balance")
    liveness.ended("balance")
    assert not signs_of(liveness).is_running
    liveness.started("balance")
    assert signs_of(liveness).is_running
    assert signs_of(liveness).has_worked
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
    spark = MagicMock()
    spark.sparkContext._jvm.java.lang.Runtime.getRuntime.return_value = runtime
    exporter, clock = Exporter(), Clock()
    liveness = Liveness(exporter, [], clock)
    assert liveness.signs().jvm_age_seconds is None
    liveness.ask_jvm(spark)
    assert asked.wait(30)
    assert value(exporter, "balancewatch_jvm_heap_bytes") == 6
    clock.now += 75
    assert liveness.signs().jvm_age_seconds == 75
    assert value(exporter, "balancewatch_jvm_age_seconds") == 75
    hang.set()
    liveness.stop()


def test_a_dead_thread_is_reported_until_the_service_ends() -> None:
    exporter, liveness, _ = started()
    alive = [True]
    liveness.watch("relay", lambda: alive[0])
    assert liveness.signs().parts == {"relay": True}
    alive[0] = False
    assert liveness.signs().parts == {"relay": False}
    assert value(exporter, "balancewatch_part_alive", part="relay") == 0
    liveness.stop()
    assert liveness.signs().parts == {}


def event(name: str = "balance", progress: str = "{}", run: str = "1") -> MagicMock:
    made = MagicMock()
    made.id.return_value.toString.return_value = f"id of {name}"
    made.runId.return_value.toString.return_value = f"run {run} of {name}"
    made.name.return_value = name
    made.progress.return_value.json.return_value = progress
    return made


def test_the_listener_reports_queries_by_the_name_of_their_start() -> None:
    liveness = MagicMock()
    listener = Listener(liveness)
    listener.onQueryStarted(event())
    listener.onQueryIdle(event())
    listener.onQueryProgress(event(progress='{"name": "balance"}'))
    listener.onQueryTerminated(event())
    listener.onQueryIdle(event("never started"))
    assert [(call[0], call.args) for call in liveness.mock_calls] == [
        ("started", ("balance",)),
        ("idled", ("balance",)),
        ("progressed", ({"name": "balance"},)),
        ("ended", ("balance",)),
    ]


def test_a_late_report_of_an_earlier_runs_end_does_not_end_the_next_run() -> None:
    _, liveness, _ = started()
    listener = Listener(liveness)
    listener.onQueryStarted(event(run="1"))
    listener.onQueryStarted(event(run="2"))
    listener.onQueryTerminated(event(run="1"))
    assert signs_of(liveness).is_running
    listener.onQueryTerminated(event(run="2"))
    assert not signs_of(liveness).is_running


def test_failures_in_the_listener_are_contained() -> None:
    """Spark's bus would drop the listener otherwise."""
    liveness = MagicMock()
    liveness.progressed.side_effect = KeyError("name")
    Listener(liveness).onQueryProgress(event(progress="{}"))
    Listener(liveness).onQueryProgress(event(progress="no JSON"))
    assert liveness.progressed.call_count == 1


LATE, HUNG = 60, 600
WELL = QuerySigns(5, is_running=True, has_worked=True)
ALL_WELL = Signs(2, {"balance": WELL}, {"relay": True})


def age(seconds: float) -> Signs:
    return Signs(2, {"balance": QuerySigns(seconds, is_running=True, has_worked=True)}, {"relay": True})


@pytest.mark.parametrize(
    ("signs", "alive", "ready"),
    [
        (ALL_WELL, [], []),
        (Signs(), [], ["Spark is starting"]),
        (
            Signs(None, {"balance": None}),
            [],
            ["Spark is starting", "the query balance has not started"],
        ),
        (
            Signs(2, {"balance": QuerySigns(5, is_running=True, has_worked=False)}),
            [],
            ["the query balance has not finished its first batch"],
        ),
        (
            Signs(2, {"balance": QuerySigns(5, is_running=False, has_worked=True)}),
            [],
            ["the query balance has stopped"],
        ),
        (age(LATE), [], []),
        (age(LATE + 1), [], ["the query balance has shown no progress for 61 s"]),
        (
            age(HUNG + 1),
            ["the query balance has shown no progress for 601 s"],
            ["the query balance has shown no progress for 601 s"],
        ),
        (Signs(LATE + 1, {"balance": WELL}), [], ["the JVM has not answered for 61 s"]),
        (
            Signs(HUNG + 1, {"balance": WELL}),
            ["the JVM has not answered for 601 s"],
            ["the JVM has not answered for 601 s"],
        ),
        (
            Signs(2, {"balance": WELL}, {"relay": False, "canary": True}),
            ["the thread relay is dead"],
            ["the thread relay is dead"],
        ),
    ],
)
def test_reasons_of_healthz_and_readyz(signs: Signs, alive: list[str], ready: list[str]) -> None:
    assert list(reasons_not_alive(signs, HUNG)) == alive
    assert list(reasons_not_ready(signs, LATE)) == ready
