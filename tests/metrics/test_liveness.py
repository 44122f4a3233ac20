"""The signs of life: told by the listener, grown old by whoever asks."""

import threading
from typing import Any
from unittest.mock import MagicMock

import pytest

from streaming.metrics import liveness as module
from streaming.metrics.exporter import Exporter
from streaming.metrics.listener import Listener
from streaming.metrics.liveness import Liveness
from tests.metrics.samples import value
from tests.metrics.test_progress import SAMPLE


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


def test_a_query_that_hangs_is_seen_to_grow_old() -> None:
    exporter, liveness, clock = started()
    clock.now += 90
    assert value(exporter, "balancewatch_progress_age_seconds", query="balance") == 90
    assert signs_of(liveness).age_seconds == 90


@pytest.mark.parametrize("tell", [lambda one: one.progressed(SAMPLE), lambda one: one.idled("balance")])
def test_a_batch_and_a_query_without_work_are_both_a_sign_of_life(tell: Any) -> None:
    exporter, liveness, clock = started()
    assert not signs_of(liveness).has_worked
    clock.now += 90
    tell(liveness)
    assert signs_of(liveness).has_worked
    assert value(exporter, "balancewatch_progress_age_seconds", query="balance") == 0


def test_a_query_that_rests_is_no_older_and_one_that_oversleeps_is() -> None:
    _, liveness, clock = started()
    liveness.rests("balance", 60)
    clock.now += 59
    assert signs_of(liveness).age_seconds == 0
    clock.now += 31
    assert signs_of(liveness).age_seconds == 30


def test_a_query_that_was_woken_ages_from_then_on() -> None:
    _, liveness, clock = started()
    liveness.rests("balance", 60)
    clock.now += 1
    liveness.rested("balance", 3, 1)
    clock.now += 7
    assert signs_of(liveness).age_seconds == 7


def test_a_query_that_is_started_again_by_other_rules_has_worked_before() -> None:
    exporter, liveness, _ = started()
    liveness.idled("balance")
    liveness.ended("balance")
    assert not signs_of(liveness).is_running
    liveness.started("balance")
    assert signs_of(liveness).is_running
    assert signs_of(liveness).has_worked
    assert value(exporter, "balancewatch_query_starts_total", query="balance") == 2


def test_a_jvm_that_does_not_answer_grows_old_while_everything_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that asks hangs with it; the age is reckoned by whoever scrapes."""
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


def test_the_listener_knows_queries_by_the_name_they_were_started_with() -> None:
    hearer = MagicMock()
    listener = Listener(hearer)
    listener.onQueryStarted(event())
    listener.onQueryIdle(event())
    listener.onQueryProgress(event(progress='{"name": "balance"}'))
    listener.onQueryTerminated(event())
    listener.onQueryIdle(event("never started"))
    assert [(call[0], call.args) for call in hearer.mock_calls] == [
        ("started", ("balance",)),
        ("idled", ("balance",)),
        ("progressed", ({"name": "balance"},)),
        ("ended", ("balance",)),
    ]


def test_the_end_of_a_run_that_is_reported_late_does_not_end_the_next() -> None:
    _, liveness, _ = started()
    listener = Listener(liveness)
    listener.onQueryStarted(event(run="1"))
    listener.onQueryStarted(event(run="2"))
    listener.onQueryTerminated(event(run="1"))
    assert signs_of(liveness).is_running
    listener.onQueryTerminated(event(run="2"))
    assert not signs_of(liveness).is_running


def test_what_goes_wrong_in_the_listener_stays_there() -> None:
    """Spark's bus would drop it otherwise."""
    hearer = MagicMock()
    hearer.progressed.side_effect = KeyError("name")
    Listener(hearer).onQueryProgress(event(progress="{}"))
    Listener(hearer).onQueryProgress(event(progress="no JSON"))
    assert hearer.progressed.call_count == 1
