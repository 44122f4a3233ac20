"""The wall clock set back and forward while a relay works: nothing waits for it, and what is written goes by it."""

import itertools
from pathlib import Path

import pytest

from streaming.relay.notice import Now, start_clock
from streaming.relay.receivers.posting import Traits
from streaming.relay.tables import RelayTables
from tests.relay.stage import BUSY, DELIVERED, DOWN, START_MS, Row, Scripted, Stage, alert_row
from udfs.alerts.silence import Silence

HOUR_MS = 3_600_000
each_step = pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS], ids=["back", "forward"])


def delay_ms(receiver: Scripted, name: str, written_ms: int) -> int:
    return next(at_ms for at_ms, notice in receiver.took() if notice.alert_id == name) - written_ms


def test_the_pace_goes_on_whatever_the_wall_says() -> None:
    wall, pace = iter([1_000_000, 1_000_010, 400_000, 9_000_000]), iter([5 * 10**6, 15 * 10**6, 25 * 10**6, 35 * 10**6])
    now = start_clock(lambda: next(wall), lambda: next(pace))
    assert [now() for _ in range(3)] == [
        Now(1_000_010, 1_000_010),
        Now(400_000, 1_000_020),
        Now(9_000_000, 1_000_030),
    ]


def test_what_a_table_says_is_yet_to_come_was_now() -> None:
    assert Now(500, 10_000).pace_of(300) == 9_800
    assert Now(500, 10_000).pace_of(HOUR_MS) == 10_000


@each_step
@pytest.mark.parametrize("traits", [Traits(), Traits(at_most=100, is_leased=True), Traits(20, 3_500)], ids=str)
def test_the_next_page_goes_out_at_once(traits: Traits, step_ms: int) -> None:
    receiver = Scripted(traits)
    stage = Stage({"one": receiver})
    stage.put("before", run=30)
    stage.set_by_ms = step_ms
    written_ms = stage.now_ms
    stage.write(alert_row("after", "FIRING", written_ms))
    stage.run(30)
    assert delay_ms(receiver, "after", written_ms) <= 10_000


@each_step
@pytest.mark.parametrize("answer", [DOWN, BUSY], ids=lambda one: str(one.code))
def test_a_receiver_that_comes_back_is_notified_as_soon_as_ever(answer: object, step_ms: int) -> None:
    receiver = Scripted(behaviour=lambda _, now_ms: answer if now_ms < START_MS + 60_000 else DELIVERED)  # type: ignore[arg-type,return-value]
    stage = Stage({"one": receiver})
    stage.put("m", run=40)
    stage.set_by_ms = step_ms
    stage.run(200)
    assert delay_ms(receiver, "m", START_MS) <= 130_000


@each_step
@pytest.mark.parametrize("is_restarted", [False, True], ids=["continues", "starts again"])
def test_leases_are_renewed_each_minute(step_ms: int, is_restarted: bool) -> None:
    leased = Scripted(Traits(at_most=100, is_leased=True))
    stage = Stage({"am[0]": leased})
    stage.put("m", run=90)
    stage.set_by_ms = step_ms
    if is_restarted:
        stage.restart(crashes=True)
    stage.run(HOUR_MS / 1000)
    times = [at_ms for at_ms, send, _ in leased.calls if any(one.alert_id == "m" for one in send.notices)]
    assert max(after - before for before, after in itertools.pairwise(times)) <= 65_000
    assert len(times) >= 55


@each_step
def test_an_end_is_notified_again_for_as_long_as_ever_after_a_restart(step_ms: int) -> None:
    leased = Scripted(Traits(at_most=100, is_leased=True))
    stage = Stage({"am[0]": leased})
    stage.write(alert_row("m", "FIRING", stage.now_ms), alert_row("m", "RESOLVED", stage.now_ms + 1))
    stage.run(30)
    stage.set_by_ms = step_ms
    stage.restart(crashes=True)
    stage.run(2 * HOUR_MS / 1000)
    assert max((at_ms for at_ms, _, _ in leased.calls), default=0) <= START_MS + 1_000_000


@each_step
def test_a_receiver_in_trouble_is_one_alert_that_ends(step_ms: int) -> None:
    dead = Scripted(behaviour=lambda _, now_ms: DOWN if now_ms < START_MS + 2_000_000 else DELIVERED)
    chat = Scripted()
    stage = Stage({"dead": dead, "chat": chat})
    stage.put("m", run=900)
    stage.set_by_ms = step_ms
    for number in range(5):
        stage.put(f"m{number}", run=100)
    stage.run(2_000)
    own: list[Row] = [row for row in stage.alerts if row["kind"] == "delivery_failed"]
    assert [row["state"] for row in own] == ["FIRING", "RESOLVED"]
    assert own[1]["changed_at"] > own[0]["changed_at"]


def test_a_silence_that_is_ended_after_the_clock_was_set_back_is_over(tmp_path: Path) -> None:
    operator_input = RelayTables(tmp_path)
    operator_input.add_silence(Silence("s", {"cluster": ("*",)}, "ada", "why", START_MS, START_MS + HOUR_MS), START_MS)
    operator_input.add_silence(
        Silence("s", {"cluster": ("*",)}, "ada", "why", START_MS, START_MS - HOUR_MS), START_MS - HOUR_MS
    )
    (silence,) = operator_input.read_silences() or []
    assert silence.ends_at_ms == START_MS - HOUR_MS
