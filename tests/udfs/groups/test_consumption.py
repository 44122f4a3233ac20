"""Consumption, not pulls, is what matters: a commit that advances is life, one that stands still is starvation."""

from dataclasses import replace

import pytest

from tests.udfs.groups.facts import RULES, A, B, ConsumerData, Life, Pull, Subscription, at
from udfs.alerts.alert import Transition
from udfs.groups.consumption import note_offsets


class Log(Life):
    """One client that pulls queue 0 of one: `come` messages a second come; `commit` of them are consumed, or none."""

    def __init__(self, come: int = 50, **reported: object) -> None:
        super().__init__(queues=1)
        self.come, self.commit, self.end = come, 1_000, 1_000
        self.pulls = reported
        self.start("h1:1", A, 0)

    def live(self, until: float, *, consumes: bool = True, pulls: bool = True) -> list[tuple[float, str, str, str]]:
        said = []
        while self.now < until:
            self.end += 5 * self.come
            self.commit = self.end - 10 if consumes and self.come else self.commit
            self.pulls = {**self.pulls, "commit_offset": self.commit, "max_offset": self.end}
            self.take("h1:1", *([0] if pulls else []))
            said += self.run(self.now + 5)
        return said

    def report_offsets(self) -> None:
        """What a collector reads of a queue that nobody is known to pull."""
        reported = {"commit_offset": self.commit, "max_offset": self.end, "offsets_only": True}
        self.state.observe(Pull(None, None, 0, at(self.now), **reported))  # type: ignore[arg-type]  # by name

    def newest(self, kind: str) -> Transition:
        rows = [row for _, outcome in self.outcomes for row in outcome.transitions if row.incident.kind == kind]
        return rows[-1]


def test_a_listener_that_hangs_is_reported_silent_first_and_starved_40_s_later_though_it_pulls_on() -> None:
    log = Log()
    log.live(300)
    said = log.live(900, consumes=False)
    assert said == [
        (480, "stalled_queue", "FIRING", "consume_stopped"),
        (520, "starved_queue", "FIRING", "consume_stopped"),
        (520, "stalled_queue", "FIRING", "consume_stopped"),  # explained by the other from now on
    ]
    assert log.verdicts() == {0: "NOT_CONSUMED"}
    starved = log.state.incidents["starved_queue orders"]
    assert starved.severity == "critical"
    assert (starved.client_id, starved.queues, starved.started_at_ms) == (A, ("broker-a:0",), at(300))
    reported = starved.evidence["queues"]["broker-a:0"]
    assert reported["then"] == {"time_ms": at(300), "commit_offset": 15_990, "max_offset": 16_000}
    assert (reported["now"]["commit_offset"], reported["now"]["max_offset"]) == (15_990, 27_000)
    assert "jstack of a@7" in starved.text.advice
    assert "mqadmin consumerStatus -g order-service -i a@7" in starved.text.advice
    assert "has stood still" in log.newest("stalled_queue").incident.text.summary


def test_it_is_over_when_the_commit_moves() -> None:
    log = Log()
    log.live(900, consumes=False)
    assert [row[1:3] for row in log.live(930)] == [("starved_queue", "RESOLVED"), ("stalled_queue", "RESOLVED")]
    assert log.verdicts() == {0: "OK"}


@pytest.mark.parametrize("seconds", [60, 175])
def test_one_slow_message_is_no_page(seconds: int) -> None:
    log = Log()
    log.live(300)
    assert log.live(300 + seconds, consumes=False) == []
    assert log.live(900) == []


def test_a_topic_without_messages_consumes_nothing_and_starves_nobody() -> None:
    log = Log(come=0)
    assert log.live(1200, consumes=False) == []
    assert log.verdicts() == {0: "OK"}


def test_a_burst_that_nobody_consumes_starves_its_queue_though_nothing_comes_after_it() -> None:
    log = Log()
    log.live(300)
    log.come, log.end = 0, log.end + 5_000
    said = log.live(7_200, consumes=False)
    assert [row for row in said if row[1] == "starved_queue"] == [(520, "starved_queue", "FIRING", "consume_stopped")]
    assert "Backlog: 5010 messages" in log.newest("starved_queue").incident.text.summary


def test_a_message_after_hours_of_idleness_begins_its_time_anew() -> None:
    log = Log(come=0)
    log.live(1200)
    log.come = 1
    assert log.live(1370, consumes=False) == []


def test_a_group_whose_commits_are_never_reported_is_judged_by_its_pulls() -> None:
    log = Log()
    while log.now < 900:
        log.end += 250
        log.pulls = {"max_offset": log.end}
        assert log.run(log.now + 5) == []
    assert log.verdicts() == {0: "OK"}


def test_an_offset_that_is_reset_back_is_no_standstill() -> None:
    log = Log()
    log.live(600)
    for _ in range(5):  # again and again to the beginning, and consumed from there
        log.commit = 1_000
        log.live(log.now + 5, consumes=False)
        said = log.live(log.now + 120)
        assert [row for row in said if row[1] in ("stalled_queue", "starved_queue")] == []


def test_what_a_slave_reports_of_commits_counts_for_nothing() -> None:
    log = Log(broker_id=1)
    log.live(900, consumes=False)
    assert {key.partition(" ")[0] for key in log.state.incidents} <= {"slave_read"}


def test_a_filter_that_lets_nothing_through_consumes_without_a_commit() -> None:
    log = Log(pull_status="NO_MATCHED_MSG")
    assert log.live(900, consumes=False) == []


def test_commits_that_advance_are_life_though_nobody_is_known_to_pull() -> None:
    log = Log()
    log.live(300)
    for _ in range(60):
        assert log.live(log.now + 10, pulls=False) == []
        log.report_offsets()
    assert log.verdicts() == {0: "OK"}


def test_pulls_that_end_when_the_commits_do_are_the_cause_for_good() -> None:
    log = Log()
    log.live(300)
    said = []
    for _ in range(30):
        said += log.live(log.now + 10, consumes=False, pulls=False)
        log.report_offsets()
    assert {row[1:] for row in said if row[1] == "starved_queue"} == {("starved_queue", "FIRING", "pull_stopped")}


def test_a_commit_that_stands_still_while_members_differ_in_tags_says_nothing_until_they_agree() -> None:
    """4.x brokers report no pull offset, and a client's own stands while it drops messages: found with 4.9.8."""
    log = differing()
    assert log.live(900, consumes=False) == []
    assert log.verdicts() == {0: "OK"}
    log.start("h2:1", B)
    said = [row[:3] for row in log.live(1_300, consumes=False) if row[1] == "starved_queue"]
    assert said == [(1_120, "starved_queue", "FIRING")]


def differing(**reported: object) -> Log:
    """Two members that subscribe by different tags; A alone pulls, and consumed until second 300."""
    log = Log(**reported)
    log.start("h2:1", B, consumer=ConsumerData((Subscription("orders", "paid"),)))
    log.live(300)
    return log


def pull_on(log: Log, until: float, furthest: int) -> list[tuple[float, str, str, str]]:
    """Nothing is committed, and the pulls follow the queue's end up to `furthest`."""
    said = []
    while log.now < until:
        log.pulls = {**log.pulls, "pull_offset": min(log.end, furthest)}
        said += log.live(log.now + 5, consumes=False)
    return said


def test_while_members_differ_in_tags_pulls_of_ever_further_offsets_excuse_a_commit_that_stands_still() -> None:
    """The client may drop what it is given, and pulls on: tags_differ, seen by agents at the brokers."""
    log = differing()
    assert pull_on(log, 1_200, furthest=1 << 40) == []
    assert log.verdicts() == {0: "OK"}


@pytest.mark.parametrize("cached", [1, 1_000])
def test_a_listener_that_hangs_is_reported_though_members_differ_in_tags(cached: int) -> None:
    """Its client pulls no further than its cache."""
    log = differing()
    said = [row for row in pull_on(log, 900, furthest=log.commit + cached) if row[1] == "starved_queue"]
    assert [row[1:] for row in said] == [("starved_queue", "FIRING", "consume_stopped")]
    assert said[0][0] <= 300 + 1_000 // log.come + 240 + 10


def test_offsets_alone_make_no_puller() -> None:
    log = Log()
    log.live(60)
    for _ in range(60):
        log.report_offsets()  # as they were
        log.live(log.now + 5, consumes=False, pulls=False)
    assert all(not queue_state.pullers for queue_state in log.state.topics["orders"].queues.values())


def held_back(life: Log, seconds: int, times: int) -> list[tuple[float, str, str, str]]:
    """One pull in `seconds`, always with a full cache, the commit having advanced by what fits since."""
    said = []
    for _ in range(times):
        life.commit += 32
        life.pulls = {
            "commit_offset": life.commit,
            "max_offset": life.commit + 5_000,
            "pull_offset": life.commit + 1_000,
        }
        life.take("h1:1", 0)
        said += life.run(life.now + 10)
        life.take("h1:1")
        said += life.run(life.now + seconds - 10)
    return said


@pytest.mark.parametrize("seconds", [100, 120, 140, 170])
def test_a_client_held_back_by_its_full_cache_pulls_rarely_and_is_healthy(seconds: int) -> None:
    log = Log()
    log.live(100)
    assert held_back(log, seconds, 12) == []
    rows = [row for when, outcome in log.outcomes for row in outcome.ownership if when > 120]
    assert rows == []


def test_a_client_held_back_that_freezes_is_reported_by_its_heartbeats() -> None:
    log = Log()
    log.live(100)
    held_back(log, 100, 3)
    log.freeze("h1:1")
    assert ("starved_queue", "FIRING", "frozen_client") in [row[1:] for row in log.run(log.now + 200)]


def test_a_hung_listener_whose_cache_has_filled_up_pulls_no_more_and_is_reported() -> None:
    """As agents at the brokers see it: after the last pull there is no event any more."""
    log = Log()
    log.live(300)
    while log.now < 380:
        log.end += 250
        log.pulls = {
            "commit_offset": log.commit,
            "max_offset": log.end,
            "pull_offset": min(log.end, log.commit + 1_010),
        }
        log.run(log.now + 5)
    log.take("h1:1")
    said = log.run(700)
    assert [row[1:] for row in said] == [
        ("stalled_queue", "FIRING", "consume_stopped"),
        ("starved_queue", "FIRING", "consume_stopped"),
        ("stalled_queue", "FIRING", "consume_stopped"),
    ]
    assert said[-1][0] <= 300 + 180 + 60 + 10


def test_nothing_is_known_of_a_queue_whose_client_is_held_back_for_long() -> None:
    log = Log()
    log.live(100)
    held_back(log, 400, 1)
    assert log.verdicts() == {0: "UNKNOWN"}
    assert log.state.topics["orders"].queues["broker-a:0"].reason == "flow_control"


def test_how_long_a_commit_may_stand_is_a_rule() -> None:
    log = Log()
    log.rules = replace(RULES, consume_silence_ms=60_000)
    log.live(300)
    assert (400, "starved_queue", "FIRING", "consume_stopped") in log.live(500, consumes=False)


def test_a_queue_that_ends_before_its_commit_was_made_anew_and_so_is_what_is_known_of_it() -> None:
    pulls = [Pull(A, "h1:1", 0, at(10 * number), commit_offset=500 + number, max_offset=9_000) for number in range(2)]
    known = None
    for pull in [*pulls, replace(pulls[0], event_time_ms=at(20), commit_offset=0, max_offset=7)]:
        known = note_offsets(known, pull)
    assert known == note_offsets(None, replace(pulls[0], event_time_ms=at(20), commit_offset=0, max_offset=7))


def test_an_older_event_changes_nothing() -> None:
    known = note_offsets(None, Pull(A, "h1:1", 0, at(10), commit_offset=5, max_offset=9))
    assert known is not None
    assert note_offsets(known, Pull(A, "h1:1", 0, at(5), commit_offset=4, max_offset=8)) == known


def test_an_owner_that_was_given_a_queue_which_stands_still_is_not_blamed_for_it() -> None:
    """It is told as what it was until the new owner consumes, or has had it for as long itself."""
    log = Log()
    log.live(300)
    log.live(600, consumes=False)
    log.leave("h1:1")
    log.start("h2:1", B)
    assert "starved_queue" not in {row[1] for row in log.run(700)}
    starved = log.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.client_id) == ("consume_stopped", A)
    log.take("h2:1", 0)
    assert "starved_queue" not in {row[1] for row in log.run(720)}
    assert (starved.cause, log.verdicts()) == ("consume_stopped", {0: "NOT_CONSUMED"})
    log.commit, log.end = log.end, log.end + 10
    log.pulls = {"commit_offset": log.commit, "max_offset": log.end}
    assert ("starved_queue", "RESOLVED") in [row[1:3] for row in log.run(740)]
