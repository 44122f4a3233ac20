"""The judge: alerts against hand-made logs of the scenario `frozen`, whose client order-2 is stopped at second 60."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.field.judge import ROUNDS_MS, Facts, Verdict, judge
from tests.lab.field.played import Done, Played
from tests.lab.field.test_truth import Logs, at
from tests.lab.field.truth import Span
from tests.lab.score.bounds import BOUNDS_MS

SUFFIX = "_frozen_a"
GROUP, TOPIC = f"order-service{SUFFIX}", f"orders{SUFFIX}"
PLAYED = Played("frozen", 1, SUFFIX, 3.0, at(0), at(330), (Done(60, "freeze", at(63), at(63)),))
KEY = ("starved_queue", "frozen_client")


def logs_until(folder: Path, back: int) -> Logs:
    """order-2 stops at second 63, and order-3 takes its queue at `back`."""
    logs = Logs(folder, TOPIC)
    logs.add_producer(range(330))
    logs.add("order-1", range(330), group=GROUP)
    logs.add_consumer("order-2", range(63), group=GROUP)
    logs.add_consumer("order-3", range(back, 330), group=GROUP)
    return logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return logs_until(tmp_path, 200)


def alert(kind: str, cause: str, state: str, second: float, **changes: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "cause": cause,
        "state": state,
        "severity": "critical",
        "reason": "holds" if state == "FIRING" else "recovered",
        "consumer_group": GROUP,
        "topic": TOPIC,
        "broker_name": None,
        "client_id": None,
        "queues": ["broker-a:0"],
        "evidence": "{}",
        "incident_id": f"{kind} {cause}",
        "inhibited_by": None,
        "changed_at": at(second),
        **changes,
    }


def judged(logs: Logs, *rows: dict[str, Any], played: Played = PLAYED) -> Verdict:
    return judge([(played, logs.read(330))], rows)


TOLD = [alert(*KEY, "FIRING", 140), alert(*KEY, "RESOLVED", 230)]


def test_a_starved_queue_told_with_its_cause_is_right_and_dated_from_the_logs(logs: Logs) -> None:
    verdict = judged(logs, *TOLD)
    tally = verdict.tallies[KEY]
    assert (tally.required, tally.reported, tally.claims, tally.right) == (1, 1, 1, 1)
    assert tally.delays_ms == [(76_000, BOUNDS_MS["frozen_client"])]
    assert verdict.is_right


def test_a_stalled_queue_is_right_only_while_its_queue_starves(logs: Logs) -> None:
    stalled = alert("stalled_queue", "pull_stopped", "FIRING", 120)
    over = alert("stalled_queue", "pull_stopped", "RESOLVED", 230)
    assert judged(logs, *TOLD, stalled, over).is_right
    afterwards = {**stalled, "changed_at": at(225)}
    assert not judged(logs, *TOLD, afterwards, over).is_right


def test_queues_of_a_broker_that_is_down_may_stall_and_no_others(logs: Logs) -> None:
    played = Played("slow_broker", 1, SUFFIX, 0.0, at(0), at(330), ())
    row = alert("stalled_queue", "pull_stopped", "FIRING", 120, queues=["broker-b:0"])
    tallies = judged(logs, row, played=played).tallies
    assert tallies["stalled_queue", None].right == 1
    tallies = judged(logs, {**row, "queues": ["broker-a:7"]}, played=played).tallies
    assert tallies["stalled_queue", None].right == 0


def test_rows_of_other_plays_are_left_out(logs: Logs) -> None:
    others = [{**TOLD[0], "consumer_group": "order-service_other_a", "topic": None, "incident_id": "other"}]
    assert judged(logs, *TOLD, *others).is_right


def test_a_page_for_a_group_that_is_gone_is_no_claim_of_its_play_and_is_counted(logs: Logs) -> None:
    late = [alert("group_offline", "group_offline", "FIRING", 400)]
    verdict = judged(logs, *TOLD, *late)
    assert verdict.afterwards == ["frozen 1: group_offline group_offline 70 s after its end"]
    assert not any(tally.wrong for tally in verdict.tallies.values())


def test_a_cluster_wide_alert_is_wrong_where_no_play_expects_it(logs: Logs) -> None:
    row = alert(
        "broker_no_data", "broker_no_data", "FIRING", 140, consumer_group=None, topic=None, broker_name="broker-b"
    )
    verdict = judged(logs, *TOLD, row)
    assert len(verdict.tallies["broker_no_data", None].wrong) == 1


def test_a_starvation_that_the_file_does_not_expect_is_a_surprise(logs: Logs) -> None:
    played = Played("rolling_restart", 1, SUFFIX, 0.0, at(0), at(330), ())
    verdict = judged(logs, played=played)
    assert verdict.surprises == [
        f"rolling_restart 1: starved_queue {GROUP} {TOPIC} broker-a:0 64-200 s, which the file does not expect"
    ]


def test_a_starvation_while_clients_start_is_no_surprise(logs: Logs) -> None:
    played = Played("rolling_restart", 1, SUFFIX, 0.0, at(150), at(330), ())
    assert judged(logs, played=played).surprises == []


def test_what_the_file_expects_and_the_logs_do_not_show_is_absent(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.add_consumer("order-2", range(330), group=GROUP)
    verdict = judged(logs)
    assert verdict.absent == ["frozen 1: starved_queue frozen_client"]


def test_a_broker_is_down_from_its_death_to_its_return_unless_a_slave_serves() -> None:
    done = (Done(60, "broker_kill", at(61), at(61)), Done(225, "broker_start", at(225), at(230)))
    played = Played("broker_killed", 1, SUFFIX, 0.0, at(0), at(300), done)
    assert played.down("broker-a") == []
    assert played.down("broker-b") == [Span(at(61), at(230))]


def test_a_spell_shorter_than_the_bound_need_not_be_told(tmp_path: Path) -> None:
    logs = logs_until(tmp_path, 63 + (BOUNDS_MS["frozen_client"] + ROUNDS_MS) // 1000)
    facts = Facts(PLAYED, logs.read(330)).facts
    assert [(fact.kind, fact.required) for fact in facts if fact.queue] == [("starved_queue", False)]


def test_pages_of_a_quiet_play_are_counted(logs: Logs) -> None:
    played = Played("rolling_restart", 1, SUFFIX, 0.0, at(0), at(330), ())
    verdict = judged(logs, *TOLD, played=played)
    assert verdict.false_pages == ["rolling_restart 1: starved_queue frozen_client"]
    assert verdict.quiet_ms == 330_000


def test_what_another_play_beside_expects_of_no_group_is_no_page_of_a_quiet_one(logs: Logs) -> None:
    truth = logs.read(330)
    names = ("rolling_restart", "clock_off")
    plays = [(Played(name, 1, f"_{name}_a", 0.0, at(0), at(330), ()), truth) for name in names]
    of_no_group = {"consumer_group": None, "topic": None}
    clocks = {"role": "client", "ahead_ms": {"order-1": 120_000}}
    skew = alert("clock_skew", "clock_out_of_step", "FIRING", 140, **of_no_group, evidence=json.dumps(clocks))
    isolated = alert("broker_isolated", "failing_broker", "FIRING", 140, **of_no_group)
    assert judge(plays, [skew]).false_pages == []
    assert judge(plays[:1], [skew]).false_pages == ["rolling_restart 1: clock_skew clock_out_of_step"]
    assert judge(plays, [skew, isolated]).false_pages == ["rolling_restart 1: broker_isolated failing_broker"]
    other = {**skew, "evidence": json.dumps({**clocks, "ahead_ms": {"order-9": 120_000}})}
    assert judge(plays, [other]).false_pages == ["rolling_restart 1: clock_skew clock_out_of_step"]


def test_an_alert_must_end_for_the_reason_that_the_file_gives(tmp_path: Path) -> None:
    played = Played("group_deleted", 1, SUFFIX, 0.0, at(0), at(300), ())
    logs = Logs(tmp_path)
    logs.add("order-1", range(60), group=GROUP)
    rows = [
        alert("group_offline", "group_offline", state, second) for state, second in (("FIRING", 150), ("RESOLVED", 230))
    ]
    verdict = judge([(played, logs.read(300))], rows)
    assert verdict.unended == ["group_deleted 1: group_offline ended by ['recovered'], not group_deleted"]
    rows[1]["reason"] = "group_deleted"
    assert judge([(played, logs.read(300))], rows).unended == []
