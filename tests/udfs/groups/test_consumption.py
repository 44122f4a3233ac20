"""Consumption, not pulls, is what matters: a commit that advances is life, one that stands still is starvation."""

from dataclasses import replace

import pytest

from tests.udfs.groups.facts import RULES, A, B, ConsumerData, Life, Pull, Subscription, at, fired_kinds, play
from udfs.groups.consumption import note_offsets

STOPPED = [
    "480 stalled_queue consume_stopped",
    "520 starved_queue consume_stopped",
    "520 stalled_queue consume_stopped",
]
"""The early sign, the page, and the early sign again: the page explains it. All consumed until 300."""


class Log(Life):
    """One client that pulls queue 0 of one: `come` messages a second come; `commit` of them are consumed, or none."""

    def __init__(self, come: int = 50, **reported: object) -> None:
        super().__init__(queues=1)
        self.come, self.commit, self.end = come, 1_000, 1_000
        self.pulls = reported
        self.start("h1:1", A, 0)

    def live(self, until: float, *, consumes: bool = True, pulls: bool = True) -> list[str]:
        said = []
        while self.now < until:
            self.end += 5 * self.come
            self.commit = self.end - 10 if consumes and self.come else self.commit
            self.pulls = {**self.pulls, "commit_offset": self.commit, "max_offset": self.end}
            self.take("h1:1", *([0] if pulls else []))
            said += play(self, f"to {self.now + 5}")
        return said

    def report_offsets(self) -> None:
        """What a collector reads of a queue that nobody is known to pull."""
        reported = {"commit_offset": self.commit, "max_offset": self.end, "offsets_only": True}
        self.state.observe(Pull(None, None, 0, at(self.now), **reported))  # type: ignore[arg-type]  # by name


def test_a_listener_that_hangs_is_reported_silent_first_and_starved_40_s_later_though_it_pulls_on() -> None:
    log = Log()
    log.live(300)
    assert log.live(900, consumes=False) == STOPPED
    assert log.verdicts() == {0: "NOT_CONSUMED"}
    starved = log.state.incidents["starved_queue orders"]
    assert (starved.severity, starved.client_id, starved.queues) == ("critical", A, ("broker-a:0",))
    assert starved.started_at_ms == at(300)
    reported = starved.evidence["queues"]["broker-a:0"]
    assert reported["then"] == {"time_ms": at(300), "commit_offset": 15_990, "max_offset": 16_000}
    assert (reported["now"]["commit_offset"], reported["now"]["max_offset"]) == (15_990, 27_000)
    assert "jstack of a@7 on h1 (mqadmin consumerStatus -g order-service -i a@7" in starved.text.advice
    assert "has stood still" in log.state.incidents["stalled_queue orders"].text.summary
    assert [row.partition(" ")[2] for row in log.live(930)] == [
        "starved_queue RESOLVED consume_stopped",
        "stalled_queue RESOLVED consume_stopped",
    ]
    assert log.verdicts() == {0: "OK"}


# Why; what the pulls tell; messages a second until 300 and then; until when nothing is consumed from 300 on.
INNOCENT = [
    ("one slow message", {}, 50, 50, 475),
    ("a topic without messages", {}, 0, 0, 1_200),
    ("a first message after idleness", {}, 0, 1, 470),
    ("a filter that lets nothing through", {"pull_status": "NO_MATCHED_MSG"}, 50, 50, 900),
    ("commits that a slave reports", {"broker_id": 1}, 50, 50, 900),
]


@pytest.mark.parametrize("row", INNOCENT, ids=[row[0] for row in INNOCENT])
def test_a_commit_that_stands_still_is_no_page_of(row: tuple[str, dict[str, object], int, int, int]) -> None:
    _, reported, come, then, until = row
    log = Log(come, **reported)
    log.live(300)
    log.come = then
    log.live(until, consumes=False)
    assert fired_kinds(log) <= {"slave_read"}
    assert log.verdicts() == {0: "OK"}


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
    assert {row.partition(" ")[2] for row in said if "starved" in row} == {"starved_queue pull_stopped"}
    assert all(not queue_state.pullers for queue_state in log.state.topics["orders"].queues.values())


def differing() -> Log:
    """Two members that subscribe by different tags; A alone pulls, and consumed until second 300."""
    log = Log()
    log.start("h2:1", B, consumer=ConsumerData((Subscription("orders", "paid"),)))
    log.live(300)
    return log


def pull_on(log: Log, until: float, furthest: int) -> list[str]:
    """Nothing is committed, and the pulls follow the queue's end up to `furthest`."""
    said = []
    while log.now < until:
        log.pulls = {**log.pulls, "pull_offset": min(log.end, furthest)}
        said += log.live(log.now + 5, consumes=False)
    return said


def test_a_commit_that_stands_still_while_members_differ_in_tags_says_nothing_until_they_agree() -> None:
    """4.x brokers report no pull offset, and a client's own stands while it drops messages: found with 4.9.8."""
    log = differing()
    assert log.live(900, consumes=False) == []
    log.start("h2:1", B)
    assert "1120 starved_queue consume_stopped" in log.live(1_300, consumes=False)


def test_while_members_differ_in_tags_pulls_of_ever_further_offsets_excuse_a_commit_that_stands_still() -> None:
    """The client may drop what it is given, and pulls on: tags_differ, seen by agents at the brokers."""
    log = differing()
    assert pull_on(log, 1_200, furthest=1 << 40) == []
    assert log.verdicts() == {0: "OK"}


@pytest.mark.parametrize("cached", [1, 1_000])
def test_a_listener_that_hangs_is_reported_though_members_differ_in_tags(cached: int) -> None:
    """Its client pulls no further than its cache."""
    log = differing()
    pull_on(log, 550 + 1_000 // log.come, furthest=log.commit + cached)
    starved = log.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.state) == ("consume_stopped", "FIRING")


def held_back(life: Log, seconds: int, times: int) -> list[str]:
    """One pull in `seconds`, always with a full cache, the commit having advanced by what fits since."""
    said = []
    for _ in range(times):
        life.commit += 32
        ends = {"max_offset": life.commit + 5_000, "pull_offset": life.commit + 1_000}
        life.pulls = {"commit_offset": life.commit, **ends}
        said += play(life, f"take h1:1 0; to {life.now + 10}; take h1:1; to {life.now + seconds}")
    return said


@pytest.mark.parametrize("seconds", [100, 170])
def test_a_client_held_back_by_its_full_cache_pulls_rarely_and_is_healthy(seconds: int) -> None:
    log = Log()
    log.live(100)
    held_back(log, seconds, 12)
    assert fired_kinds(log) == set()
    assert [row for when, outcome in log.outcomes for row in outcome.ownership if when > 120] == []


def test_a_client_held_back_that_freezes_is_reported_by_its_heartbeats() -> None:
    log = Log()
    log.live(100)
    held_back(log, 100, 3)
    assert any("starved_queue frozen_client" in row for row in play(log, f"freeze h1:1; to {log.now + 200}"))


def test_a_hung_listener_whose_cache_has_filled_up_pulls_no_more_and_is_reported() -> None:
    """As agents at the brokers see it: after the last pull there is no event any more."""
    log = Log()
    log.live(300)
    while log.now < 380:
        log.end += 250
        furthest = min(log.end, log.commit + 1_010)
        log.pulls = {"commit_offset": log.commit, "max_offset": log.end, "pull_offset": furthest}
        log.run(log.now + 5)
    said = play(log, "take h1:1; to 550")
    assert [row.partition(" ")[2] for row in said] == [row.partition(" ")[2] for row in STOPPED]


def test_nothing_is_known_of_a_queue_whose_client_is_held_back_for_long() -> None:
    log = Log()
    log.live(100)
    held_back(log, 400, 1)
    assert log.verdicts() == {0: "UNKNOWN"}
    assert log.state.topics["orders"].queues["broker-a:0"].reason == "flow_control"


def test_time_alone_makes_no_standstill_certain() -> None:
    """Pulls that end 200 s after the commits show no more than these 200 s."""
    log = Log()
    log.live(300)
    log.live(500, consumes=False)
    play(log, "take h1:1; to 800")
    assert fired_kinds(log) == {"stalled_queue"}


def test_how_long_a_commit_may_stand_is_a_rule() -> None:
    log = Log()
    log.rules = replace(RULES, consume_silence_ms=60_000)
    log.live(300)
    assert "400 starved_queue consume_stopped" in log.live(500, consumes=False)


def test_a_queue_that_ends_before_its_commit_was_made_anew_and_an_older_event_changes_nothing() -> None:
    pulls = [Pull(A, "h1:1", 0, at(10 * number), commit_offset=500 + number, max_offset=9_000) for number in range(2)]
    anew = replace(pulls[0], event_time_ms=at(20), commit_offset=0, max_offset=7)
    known = None
    for pull in [*pulls, anew, replace(pulls[0], event_time_ms=at(15))]:
        known = note_offsets(known, pull)
    assert known == note_offsets(None, anew)


def test_an_owner_that_was_given_a_queue_which_stands_still_is_not_blamed_for_it() -> None:
    """It is told as what it was until the new owner consumes, or has had it for as long itself."""
    log = Log()
    log.live(300)
    log.live(600, consumes=False)
    said = play(log, "leave h1:1; start h2:1 B; to 700")
    starved = log.state.incidents["starved_queue orders"]
    assert (starved.cause, starved.client_id) == ("consume_stopped", A)
    said += play(log, "take h2:1 0; to 720")
    assert not any("starved_queue" in row for row in said)
    assert (starved.cause, log.verdicts()) == ("consume_stopped", {0: "NOT_CONSUMED"})
    log.commit, log.end = log.end, log.end + 10
    log.pulls = {"commit_offset": log.commit, "max_offset": log.end}
    assert any("starved_queue RESOLVED" in row for row in play(log, "to 740"))
