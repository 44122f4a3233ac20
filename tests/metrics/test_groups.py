"""Groups by verdict and members: told of rows as they come, they say what the newest rows say."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.groups import VERDICTS, Groups
from tests.metrics.samples import assignment, closed, membership, samples, value


def groups(limit: int = 10) -> tuple[Exporter, Groups]:
    exporter = Exporter()
    return exporter, Groups(exporter, Clusters(10), limit)


def queues(exporter: Exporter, group: str) -> dict[str, int]:
    """The verdicts that any of the group's queues has."""
    every = samples(exporter, "balancewatch_queues")
    named = {
        labels: count
        for key, count in every.items()
        if (labels := dict(key)["verdict"]) and dict(key)["consumer_group"] == group
    }
    return {verdict: int(count) for verdict, count in named.items() if count}


def test_a_queue_counts_under_its_newest_verdict() -> None:
    exporter, known = groups()
    known.update([assignment("g", number, "OK") for number in range(4)], [])
    assert queues(exporter, "g") == {"OK": 4}
    known.update(
        [assignment("g", 0, "UNOWNED"), assignment("g", 1, "NOT_CONSUMED"), assignment("g", 0, "DOUBLE_CONSUMED")], []
    )
    assert queues(exporter, "g") == {"OK": 2, "NOT_CONSUMED": 1, "DOUBLE_CONSUMED": 1}


def test_every_verdict_of_a_known_group_is_said_also_when_it_has_none() -> None:
    """A rule on UNOWNED then sees 0, and not nothing."""
    exporter, known = groups()
    known.update([assignment("g", 0, "OK")], [])
    assert {dict(key)["verdict"] for key in samples(exporter, "balancewatch_queues")} == set(VERDICTS)


def test_twins_are_two_channels_and_one_client_id() -> None:
    exporter, known = groups()
    known.update([], [membership("g", "1:1", "same"), membership("g", "2:1", "same"), membership("g", "3:1", "other")])
    labels = {"cluster": "c", "consumer_group": "g"}
    assert value(exporter, "balancewatch_members", **labels) == 3
    assert value(exporter, "balancewatch_client_ids", **labels) == 2
    known.update([], [membership("g", "2:1", "same", "EXPIRED"), membership("g", "3:1", "renamed", "CHANGED")])
    assert value(exporter, "balancewatch_members", **labels) == 2
    assert value(exporter, "balancewatch_client_ids", **labels) == 2


def test_members_are_those_of_the_broker_that_lists_most() -> None:
    exporter, known = groups()
    rows = [membership("g", f"{number}:1", f"id{number}", broker_name="a") for number in range(3)]
    known.update([], [*rows, membership("g", "9:1", "id0", broker_name="b")])
    assert value(exporter, "balancewatch_members", cluster="c", consumer_group="g") == 3


def test_a_deleted_group_takes_its_series_along() -> None:
    exporter, known = groups()
    known.update([assignment("g", 0, "OK"), assignment("stays", 0, "OK")], [membership("g", "1:1", "x")])
    assert value(exporter, "balancewatch_groups", cluster="c") == 2
    known.update([closed("g", 0)], [membership("g", "1:1", "x", "LEFT")])
    assert value(exporter, "balancewatch_groups", cluster="c") == 1
    assert {dict(key)["consumer_group"] for key in samples(exporter, "balancewatch_queues")} == {"stays"}
    assert {dict(key)["consumer_group"] for key in samples(exporter, "balancewatch_members")} == {"stays"}


def test_a_group_that_is_not_judged_but_has_members_is_there() -> None:
    exporter, known = groups()
    known.update([closed("broadcast", 0)], [membership("broadcast", "1:1", "x")])
    assert queues(exporter, "broadcast") == {"NOT_JUDGED": 1}


def test_groups_beyond_the_limit_are_summed_and_the_one_in_trouble_keeps_its_name() -> None:
    exporter, known = groups(limit=1)
    known.update([assignment("a", 0, "OK"), assignment("b", 0, "OK"), assignment("z", 0, "UNOWNED")], [])
    assert queues(exporter, "z") == {"UNOWNED": 1}
    assert queues(exporter, "other") == {"OK": 2}
    assert known.folded == 2
    known.update([assignment("b", 0, "UNOWNED")], [])
    assert queues(exporter, "other") == {"OK": 1, "UNOWNED": 1}
    known.update([closed("b", 0)], [])
    assert queues(exporter, "other") == {"OK": 1}
    assert known.folded == 1


def test_a_group_that_is_called_other_is_among_the_others() -> None:
    exporter, known = groups(limit=1)
    known.update([assignment("other", 0, "OK"), assignment("a", 0, "OK"), assignment("b", 0, "OK")], [])
    assert queues(exporter, "a") == {"OK": 1}
    assert queues(exporter, "other") == {"OK": 2}


def test_the_canarys_cluster_is_left_out() -> None:
    exporter, known = groups()
    known.update([assignment("canary", 0, "OK", cluster="balancewatch_canary")], [])
    assert samples(exporter, "balancewatch_queues") == {}
    assert samples(exporter, "balancewatch_groups") == {}


steps = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 3), st.sampled_from(["OK", "UNOWNED", "closed"])), max_size=40
)


@given(steps, st.integers(1, 3), st.integers(1, 7))
def test_cut_into_batches_or_not_the_sums_are_those_of_the_newest_rows(
    log: list[tuple[str, int, str]], limit: int, size: int
) -> None:
    def row(group: str, queue_id: int, verdict: str) -> dict[str, Any]:
        return closed(group, queue_id) if verdict == "closed" else assignment(group, queue_id, verdict)

    exporter, known = groups(limit)
    for start in range(0, len(log), size):
        known.update([row(*step) for step in log[start : start + size]], [])
    newest = {(group, queue_id): verdict for group, queue_id, verdict in log}
    there = {group for (group, _), verdict in newest.items() if verdict != "closed"}
    said: Counter[str] = Counter()
    for key, count in samples(exporter, "balancewatch_queues").items():
        said[dict(key)["verdict"]] += int(count)
    expected = Counter(
        "NOT_JUDGED" if verdict == "closed" else verdict for (group, _), verdict in newest.items() if group in there
    )
    for verdict in ("OK", "UNOWNED"):
        assert said[verdict] == expected[verdict]
    assert value(exporter, "balancewatch_groups", cluster="c") in ({len(there)} if there else {None, 0})
    names = {dict(key)["consumer_group"] for key in samples(exporter, "balancewatch_queues")}
    assert len(names - {"other"}) <= limit
    assert ("other" in names) == (known.folded > 0)
