"""Backlogs end to end: events in, rows of `backlogs` out, in whatever batches and by whichever worker."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from tests.queries.events import Event, asked, beat, by_ticks, clock, in_order, pull, route
from tests.queries.logs import MINUTE, SECOND, START, Rows
from tests.queries.test_forgetting import forget
from tests.support.engine import Stream, cut, messages_of, replay
from tests.support.every_evaluation import EveryEvaluation
from tests.support.examples import examples
from udfs.groups.backlog import STALE_MS

pytestmark = pytest.mark.replay

Reports = list[tuple[int, int, int | None]]
"""Second, queue and messages of rows."""


def reports(rows: Rows) -> Reports:
    return [
        ((row["changed_at"] - START) // SECOND, row["queue_id"], row["messages"]) for row in rows.get("backlogs", [])
    ]


def offsets(second: int, queue_id: int, backlog: int, group: str = "g", **more: object) -> Event:
    commit = 1_000_000 + 10 * second
    return pull(second, queue_id, group=group, commit_offset=commit, max_offset=commit + backlog, **more)


def lives(until: int, group: str = "g") -> list[Event]:
    """A route of two queues, a member, and rounds of 10 s."""
    beats = [beat(second, "A", "h1:1", group) for second in range(0, until, 30)]
    return [route(0, 2), *beats, *(clock(second) for second in range(9, until, 10))]


def behind(until: int, since: int = 100, messages: int = 5_000) -> list[Event]:
    """Queue 0 has this backlog from then on, queue 1 none."""
    return [
        offsets(second, queue, messages if second >= since and not queue else 0)
        for second in range(0, until, 10)
        for queue in (0, 1)
    ]


def test_a_burst_that_a_hung_client_does_not_consume() -> None:
    """40,000 messages at 95 s: 5,000 in each queue. Agents report no offsets after its cache is full."""
    messages = messages_of(Simulation(load_scenario("burst_hung"), 1, START).events(14 * MINUTE))
    rows = replay(cut(messages, 40))
    begun, ended = reports(rows)[:3], reports(rows)[3:]
    assert {(second, messages) for second, _, messages in begun} == {(160, 5_000)}
    assert {messages for _, _, messages in ended} == {None}
    assert rows["backlogs"] == replay(cut(messages, 7), is_kept=False)["backlogs"], "each batch by a new worker"


def test_a_backlog_is_reported_after_a_minute_as_it_doubles_and_when_it_is_consumed() -> None:
    """Each batch by a new process, which knows nothing but the checkpoint."""
    events = [*lives(600), *behind(300)]
    events += [offsets(second, 0, 12_000) for second in range(300, 400, 10)]
    events += [offsets(second, 0, 40) for second in range(400, 600, 10)]
    stream = Stream()
    rows: Reports = []
    for batch in by_ticks(in_order(*events)):
        rows += reports(stream.feed(batch))
        restarted = Stream()
        restarted._store, restarted._enveloper = stream._store, stream._enveloper
        stream = restarted
    assert rows == [(169, 0, 5_000), (309, 0, 12_000), (409, 0, 40)]
    (key,) = stream.kept.groups.all_keys()
    group = stream.kept.groups.get(key)
    assert group is not None
    assert group.backlogs == {}


@pytest.mark.parametrize(
    ("news", "second"),
    [
        pytest.param([route(205, 0)], 205, id="topic_deleted"),
        pytest.param([clock(209.5, deleted_groups=["g"])], 209, id="group_deleted"),
        pytest.param([forget(205, "group", "g")], 205, id="group_forgotten"),
        pytest.param([forget(205, "cluster", "c")], 205, id="cluster_forgotten"),
    ],
)
def test_what_is_gone_has_no_backlog(news: list[Event], second: int) -> None:
    rows = Stream().feed_each(by_ticks(in_order(*lives(200), *behind(200), *news, clock(219))))
    assert reports(rows)[:1] == [(169, 0, 5_000)]
    assert [row for row in reports(rows)[1:] if second <= row[0] <= second + 15] == [(reports(rows)[1][0], 0, None)]
    assert len(reports(rows)) == 2


def test_offsets_that_are_missing_for_minutes_are_no_longer_known() -> None:
    """Its client lives on and is asked, and the broker answers: only the offsets are missing."""
    events = [*lives(900), *behind(200), *(pull(second, queue) for second in range(200, 900, 10) for queue in (0, 1))]
    rows = reports(Stream().feed_each(by_ticks(in_order(*events))))
    assert rows[0] == (169, 0, 5_000)
    assert [row[1:] for row in rows[1:]] == [(0, None)]
    assert STALE_MS <= (rows[1][0] - 190) * SECOND <= STALE_MS + 2 * MINUTE


def test_healthy_groups_write_no_row_and_stay_calm() -> None:
    """A thousand of them, as busy as fits between two commits; one evaluation is all that each of them needs."""
    names = [f"g{number}" for number in range(1_000)]
    events: list[Event] = [route(0, 1)]
    for second in range(0, 120, 10):
        events += [offsets(second, 0, 4_000 * (second % 50 > 20), name) for name in names]
        events += [beat(second, "A", "h1:1", name) for name in names if second % 30 == 0]
        events.append(clock(second + 9))
    stream = Stream()
    assert stream.feed_each(by_ticks(events))["backlogs"] == []
    (cluster,) = stream.kept.shard_index.clusters.values()
    assert {entry.is_calm for entry in cluster.groups.values()} == {True}


BACKLOGS = st.lists(st.sampled_from([0, 400, 990, 1_000, 1_900, 4_000, 70_000]), min_size=2, max_size=90)


def drawn(backlogs: list[int], every: int, silent: int) -> Iterator[Event]:
    """Of queue 0 by pulls, of queue 1 by a collector; every so many seconds, with pauses of so many reports."""
    until = every * len(backlogs)
    yield from lives(until)
    for number, backlog in enumerate(backlogs):
        if silent < 5 or number % 30 < 30 - silent:
            yield offsets(number * every, 0, backlog)
            yield offsets(number * every, 1, backlog, client_id=None, client_addr=None, offsets_only=True)
        else:
            yield pull(number * every, 0)
        yield pull(number * every + 1, 1)


@examples(25)
@given(BACKLOGS, st.sampled_from([4, 10, 25]), st.sampled_from([0, 12, 25]))
def test_any_backlog_has_the_rows_of_the_engine_that_evaluates_everything(
    backlogs: list[int], every: int, silent: int
) -> None:
    messages = messages_of(in_order(*drawn(backlogs, every, silent), clock(len(backlogs) * every, **asked("broker-a"))))
    rows = replay(cut(messages, 5))["backlogs"]
    assert rows == replay(cut(messages, 5), engine=EveryEvaluation)["backlogs"]
