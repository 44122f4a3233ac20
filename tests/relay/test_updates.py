"""Changes of queues are notified only once they settle; an effect does not wait for ever for its cause."""

import pytest

from tests.relay.stage import START_MS, alert_row, stage_of


def queues(number: int) -> list[str]:
    return [f"broker-a:{one}" for one in range(number)]


@pytest.mark.parametrize("tick_seconds", [5, 10, 30, 75])
@pytest.mark.parametrize("sizes", [range(30, 0, -1), range(1, 31), [1, 2] * 15], ids=["shrinks", "grows", "flaps"])
def test_a_list_that_changes_at_each_tick_is_notified_a_few_times_and_ends_as_it_is(
    sizes: list[int], tick_seconds: int
) -> None:
    stage, pager = stage_of()
    for size in sizes:
        stage.put("m", run=tick_seconds, queues=queues(size))
    notified = len(pager.took())
    assert notified <= 2 + 30 * tick_seconds / 120
    stage.run(3_600)
    assert pager.took()[-1][1].queues == tuple(queues(list(sizes)[-1]))
    assert len(pager.took()) <= notified + 1


def test_a_list_that_changes_and_stands_still_is_notified_after_half_a_minute() -> None:
    stage, pager = stage_of()
    stage.put("m", run=60)
    changed_ms = stage.now_ms
    stage.write(alert_row("m", "FIRING", changed_ms, queues=queues(3)))
    stage.run(60)
    assert [len(one.queues) for _, one in pager.took()] == [1, 3]
    assert 30_000 <= pager.took()[-1][0] - changed_ms <= 33_000


@pytest.mark.parametrize("change", [{"cause": "pull_stopped"}, {"severity": "error"}], ids=str)
def test_another_cause_or_severity_is_notified_at_once_with_the_queues_of_now(change: dict[str, str]) -> None:
    stage, pager = stage_of()
    stage.put("m", run=5)
    stage.put("m", run=5, queues=queues(2))
    stage.put("m", run=5, queues=queues(3), **change)
    assert [len(one.queues) for _, one in pager.took()] == [1, 3]
    stage.run(600)
    assert len(pager.took()) == 2


def test_what_only_waits_is_notified_by_a_relay_that_ends() -> None:
    stage, pager = stage_of()
    stage.write(alert_row("m", "FIRING", stage.now_ms))
    stage.write(alert_row("cause", "UNKNOWN", stage.now_ms))
    stage.put("effect", run=5, inhibited_by=f"cause-{START_MS}")
    stage.put("m", run=5, queues=queues(2))
    assert pager.notified() == ["m firing"]
    stage.owed.advance(stage.now, is_ending=True)
    stage.run(5)
    assert sorted(pager.notified()) == ["effect firing", "m firing", "m firing"]


@pytest.mark.parametrize("state", ["UNKNOWN", "PENDING"])
@pytest.mark.parametrize(
    ("later", "notified"),
    [(None, [[], ["effect firing"]]), ("RESOLVED", [["effect firing"]] * 2), ("FIRING", [["cause firing"]] * 2)],
    ids=["never fires", "ends without having fired", "fires in time"],
)
def test_an_effect_waits_two_minutes_for_its_cause_to_fire(
    state: str, later: str | None, notified: list[list[str]]
) -> None:
    """One page if the cause fires; the effect is notified if the cause ends, or has not fired by then."""
    stage, pager = stage_of()
    stage.write(alert_row("cause", state, stage.now_ms))
    stage.put("effect", run=60, inhibited_by=f"cause-{START_MS}")
    assert pager.notified() == []
    if later is not None:
        stage.write(alert_row("cause", later, stage.now_ms))
    for seconds, expected in zip((50, 500), notified, strict=True):
        stage.run(seconds)
        assert pager.notified() == expected
