"""The gauges of the tables: sums of the newest rows, bounded in number, without a failed scrape."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics import tables as module
from streaming.metrics.exporter import Exporter
from streaming.metrics.tables import MOST_CLOCKS, MOST_CLUSTERS, QUERIES, VERDICTS, TableMetrics
from streaming.store.store import History
from streaming.warehouse.writer import append_rows
from tests.metrics.samples import assignment, closed, membership, samples, value
from tests.relay.stage import START_MS, alert_row
from tests.support.row_writer import RowWriter

GROUP = {"cluster": "c", "consumer_group": "g"}


class Scrapes:
    """A warehouse and the metrics of its tables, read at each scrape."""

    def __init__(self, folder: Path, max_groups: int = 10) -> None:
        self.folder = folder
        self.tables = TableMetrics(max_groups, cache_seconds=0)
        self.exporter = Exporter(self.tables)
        self.tables.begin(folder)
        self._batch = 0

    def write(self, **rows: Sequence[dict[str, Any]]) -> "Scrapes":
        """Append a batch, one second later than the one before."""
        self._batch += 1
        at_ms = START_MS + 1000 * self._batch
        times = {"since": at_ms, "changed_at": at_ms, "last_heartbeat": at_ms}
        timed = {table: [times | row for row in of_table] for table, of_table in rows.items()}
        append_rows(RowWriter(self.folder), timed, "app", self._batch)
        return self

    def value(self, name: str, **labels: str) -> float | None:
        return value(self.exporter, f"balancewatch_{name}", **labels)

    def samples(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        return samples(self.exporter, f"balancewatch_{name}")

    def queues(self, group: str) -> dict[str, int]:
        """Return the verdicts that queues of the group have."""
        found = ((dict(labels), int(count)) for labels, count in self.samples("queues").items())
        return {labels["verdict"]: count for labels, count in found if labels["consumer_group"] == group if count}

    def groups(self) -> set[str]:
        return {dict(labels)["consumer_group"] for labels in self.samples("queues")}


@pytest.fixture
def scrapes(tmp_path: Path) -> Scrapes:
    return Scrapes(tmp_path)


def alert(incident: str, state: str, at_ms: int, **columns: Any) -> dict[str, Any]:
    return alert_row(incident, state, at_ms, **({"cluster": "c"} | columns))


def health(unavailable: int, producers: int, **columns: Any) -> dict[str, Any]:
    row = {"cluster": "c", "broker_name": "b", "unavailable_producers": unavailable, "producers": producers}
    return row | columns


def test_a_queue_counts_under_its_newest_verdict(scrapes: Scrapes) -> None:
    """Every verdict has a series: a rule on UNOWNED then reads 0, not missing data."""
    scrapes.write(assignments=[assignment("g", number, "OK") for number in range(4)])
    assert scrapes.queues("g") == {"OK": 4}
    assert {dict(labels)["verdict"] for labels in scrapes.samples("queues")} == set(VERDICTS)
    scrapes.write(assignments=[assignment("g", 0, "UNOWNED"), assignment("g", 1, "NOT_CONSUMED")])
    scrapes.write(assignments=[assignment("g", 0, "DOUBLE_CONSUMED")])
    assert scrapes.queues("g") == {"OK": 2, "NOT_CONSUMED": 1, "DOUBLE_CONSUMED": 1}


def test_twins_are_two_channels_with_one_client_id_at_the_broker_that_lists_the_most(scrapes: Scrapes) -> None:
    scrapes.write(
        memberships=[
            *(membership("g", address, name) for address, name in (("1:1", "same"), ("2:1", "same"), ("3:1", "other"))),
            membership("g", "9:1", "third", broker_name="lists fewer"),
        ]
    )
    assert (scrapes.value("members", **GROUP), scrapes.value("client_ids", **GROUP)) == (3, 2)
    scrapes.write(memberships=[membership("g", "2:1", "same", "EXPIRED"), membership("g", "3:1", "other", "CHANGED")])
    assert (scrapes.value("members", **GROUP), scrapes.value("client_ids", **GROUP)) == (2, 2)


def test_a_group_has_a_backlog_series_only_while_it_is_reported(tmp_path: Path) -> None:
    """Of its queues with 1,000 messages or more; groups beyond the limit are summed."""
    scrapes = Scrapes(tmp_path, max_groups=1)

    def behind(group: str, queue_id: int, messages: int | None) -> dict[str, Any]:
        place = {"cluster": "c", "consumer_group": group, "topic": "t", "broker_name": "b", "queue_id": queue_id}
        return place | {"messages": messages}

    scrapes.write(assignments=[assignment(name, 0, "OK") for name in ("g", "h", "i")])
    assert scrapes.samples("group_backlog_messages") == {}
    scrapes.write(backlogs=[behind("g", 0, 4_000), behind("g", 1, 1_000), behind("g", 2, 999), behind("h", 0, 5_000)])
    assert scrapes.value("group_backlog_messages", **GROUP) == 5_000
    assert scrapes.value("group_backlog_messages", cluster="c", consumer_group="other") == 5_000
    scrapes.write(backlogs=[behind("g", 0, 20), behind("g", 1, None)])
    assert scrapes.value("group_backlog_messages", **GROUP) is None


def test_a_deleted_group_loses_its_series(scrapes: Scrapes) -> None:
    scrapes.write(
        assignments=[assignment("g", 0, "OK"), assignment("stays", 0, "OK")], memberships=[membership("g", "1:1", "x")]
    )
    assert scrapes.value("groups", cluster="c") == 2
    scrapes.write(assignments=[closed("g", 0)], memberships=[membership("g", "1:1", "x", "LEFT")])
    assert scrapes.value("groups", cluster="c") == 1
    assert scrapes.groups() == {"stays"}
    assert {dict(labels)["consumer_group"] for labels in scrapes.samples("members")} == {"stays"}


def test_a_group_without_a_plan_counts_while_it_has_members(scrapes: Scrapes) -> None:
    scrapes.write(assignments=[closed("broadcast", 0)], memberships=[membership("broadcast", "1:1", "x")])
    assert scrapes.queues("broadcast") == {"NOT_JUDGED": 1}


def test_groups_beyond_the_limit_are_summed_and_a_starved_group_has_its_name(tmp_path: Path) -> None:
    scrapes = Scrapes(tmp_path, max_groups=1)
    scrapes.write(assignments=[assignment("a", 0, "OK"), assignment("b", 0, "OK"), assignment("z", 0, "UNOWNED")])
    assert (scrapes.queues("z"), scrapes.queues("other")) == ({"UNOWNED": 1}, {"OK": 2})
    assert scrapes.value("series_limited", kind="groups") == 2
    scrapes.write(assignments=[assignment("b", 0, "UNOWNED"), assignment("z", 0, "OK")])
    assert (scrapes.queues("b"), scrapes.queues("other")) == ({"UNOWNED": 1}, {"OK": 2})
    scrapes.write(assignments=[closed("z", 0)])
    assert (scrapes.queues("b"), scrapes.queues("other")) == ({"UNOWNED": 1}, {"OK": 1})
    assert scrapes.value("series_limited", kind="groups") == 1


def test_a_group_with_the_name_other_is_summed_with_the_others(tmp_path: Path) -> None:
    scrapes = Scrapes(tmp_path, max_groups=1)
    scrapes.write(assignments=[assignment(name, 0, "OK") for name in ("other", "a", "b")])
    assert (scrapes.queues("a"), scrapes.queues("other")) == ({"OK": 1}, {"OK": 2})


def test_brokers_beyond_the_limit_are_summed(tmp_path: Path) -> None:
    scrapes = Scrapes(tmp_path, max_groups=1)
    scrapes.write(broker_health=[health(2, 5), health(1, 3, broker_name="b2"), health(0, 4, broker_name="b3")])
    assert scrapes.value("unavailable_producers", cluster="c", broker_name="b") == 2
    assert scrapes.value("producers", cluster="c", broker_name="other") == 7
    assert scrapes.value("series_limited", kind="brokers") == 2
    scrapes.write(broker_health=[health(0, 0)])
    assert scrapes.value("producers", cluster="c", broker_name="b") is None


def test_the_canarys_cluster_is_left_out(scrapes: Scrapes) -> None:
    canary = {"cluster": "balancewatch_canary"}
    scrapes.write(
        assignments=[assignment("g", 0, "OK", **canary)],
        memberships=[membership("g", "1:1", "x", **canary)],
        broker_health=[health(1, 1, **canary)],
        alerts=[alert("i", "FIRING", START_MS, **canary)],
    )
    scrapes.tables.note_clock("balancewatch_canary", START_MS)
    for name in ("queues", "groups", "members", "producers", "incidents", "event_time_lag_seconds"):
        assert scrapes.samples(name) == {}


def test_an_incident_counts_once_under_its_newest_state_and_inhibited_ones_apart(scrapes: Scrapes) -> None:
    rows = [alert("i", "PENDING", START_MS), alert("i", "FIRING", START_MS + 1), alert("j", "FIRING", START_MS)]
    scrapes.write(alerts=rows)
    labels = {"cluster": "c", "kind": "starved_queue", "severity": "critical", "is_inhibited": "false"}
    assert scrapes.value("incidents", **labels, state="FIRING") == 2
    scrapes.write(alerts=[alert("i", "RECOVERING", START_MS + 2)])
    assert scrapes.value("incidents", **labels, state="FIRING") == 1
    assert scrapes.value("incidents", **labels, state="RECOVERING") == 1
    ended = [alert("i", "RESOLVED", START_MS + 3), alert("j", "FIRING", START_MS + 3, inhibited_by="x")]
    scrapes.write(alerts=ended)
    assert scrapes.value("incidents", **labels, state="RECOVERING") == 0, "and not missing data"
    assert scrapes.value("incidents", **labels | {"is_inhibited": "true"}, state="FIRING") == 1


def test_before_the_first_batch_there_are_no_series(scrapes: Scrapes) -> None:
    assert scrapes.samples("queues") == {}
    assert set(scrapes.samples("series_limited").values()) == {0}
    assert {dict(labels)["table"] for labels in scrapes.samples("table_age_seconds")} == QUERIES.keys()
    assert samples(Exporter(TableMetrics(10)), "balancewatch_table_age_seconds") == {}, "nor ages before it begins"


@pytest.mark.parametrize(
    ("promise", "verdict_s", "clocks_s", "now_s", "lag_s"),
    [
        ("the newest clock event counts", 1, (990, 980), 1000, 10),
        ("its age grows", 1, (990, 980), 1060, 70),
        ("verdicts by the clock events of `run` hide no silent collector", 299, (0,), 300, 300),
        ("a clock from the future hides no lag", 1, (900, 1000 + 3600), 1000, 100),
        ("a clock that is a little ahead counts as now", 1, (900, 1002), 1000, 0),
        ("before the first clock event the newest verdict has the time", 1, (), 401, 400),
    ],
)
def test_event_time_lag(
    scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch, promise: str, verdict_s: int, clocks_s: tuple[int, ...],
    now_s: int, lag_s: int,
) -> None:  # fmt: skip
    """Of clock events and a verdict, each at a second after START_MS."""
    older = assignment("g", 0, "OK", changed_at=START_MS)
    scrapes.write(assignments=[older, assignment("g", 1, "OK", changed_at=START_MS + 1000 * verdict_s)])
    monkeypatch.setattr("time.time", lambda: START_MS / 1000 + now_s)
    for clock_s in clocks_s:
        scrapes.tables.note_clock("c", START_MS + 1000 * clock_s)
    assert scrapes.samples("event_time_lag_seconds") == {(("cluster", "c"),): lag_s}, promise


def test_static_labels_are_on_the_series_of_what_they_match(scrapes: Scrapes) -> None:
    """Incidents of one kind are counted by team; a label that the series cannot know is left out."""
    scrapes.tables.label(
        [({"consumer_group": ("pay*",)}, {"team": "payments"}), ({"topic": ("t",)}, {"tier": "1"}), ({}, {"env": "x"})]
    )
    groups = {"pay-eu": "payments", "pay-us": "payments", "orders": None}
    scrapes.write(
        assignments=[assignment(group, 0, "OK") for group in groups],
        alerts=[alert(group, "FIRING", START_MS, consumer_group=group, topic="t") for group in groups],
        broker_health=[health(1, 2)],
    )
    assert scrapes.value("queues", cluster="c", consumer_group="pay-eu", verdict="OK", team="payments", env="x") == 1
    assert scrapes.value("queues", cluster="c", consumer_group="orders", verdict="OK", env="x") == 1
    assert scrapes.value("producers", cluster="c", broker_name="b", env="x") == 2
    incident = {"cluster": "c", "kind": "starved_queue", "severity": "critical", "state": "FIRING"}
    incident |= {"is_inhibited": "false", "tier": "1", "env": "x"}
    assert scrapes.value("incidents", **incident, team="payments") == 2
    assert scrapes.value("incidents", **incident) == 1
    scrapes.tables.label([])
    assert scrapes.value("queues", cluster="c", consumer_group="pay-eu", verdict="OK") == 1
    assert set(scrapes.samples("incidents").values()) == {3}


def test_clock_events_alone_name_no_cluster(scrapes: Scrapes) -> None:
    for number in range(2 * MOST_CLOCKS):
        scrapes.tables.note_clock(f"made up {number}", START_MS)
    assert len(scrapes.tables._clocks_ms) == MOST_CLOCKS
    assert scrapes.samples("event_time_lag_seconds") == {}
    scrapes.write(assignments=[assignment("g", 0, "OK")])
    assert scrapes.value("groups", cluster="c") == 1


def test_clusters_beyond_their_limit_are_summed_and_free_their_places(scrapes: Scrapes) -> None:
    names = [f"made up {number:03}" for number in range(MOST_CLUSTERS + 5)]
    scrapes.write(
        assignments=[assignment("g", 0, "OK", cluster=name) for name in names],
        alerts=[alert(name, "FIRING", START_MS, cluster=name) for name in names],
    )
    assert len(scrapes.samples("groups")) == MOST_CLUSTERS
    assert scrapes.value("series_limited", kind="clusters") == 5
    assert scrapes.value("queues", cluster="other", consumer_group="other", verdict="OK") == 5
    assert sum(scrapes.samples("incidents").values()) == MOST_CLUSTERS + 5
    scrapes.write(
        assignments=[closed("g", 0) | {"cluster": name} for name in names] + [assignment("g", 0, "OK")],
        alerts=[alert(name, "RESOLVED", START_MS + 1, cluster=name) for name in names],
    )
    assert scrapes.value("groups", cluster="c") == 1
    assert scrapes.value("series_limited", kind="clusters") == 0
    for name in ("groups", "incidents", "event_time_lag_seconds"):
        assert len(scrapes.samples(name)) <= MOST_CLUSTERS


def test_an_unreadable_table_fails_no_scrape_and_its_age_grows(
    scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its series keep their last values; the failure is logged once."""
    scrapes.write(assignments=[assignment("g", 0, "UNOWNED")], memberships=[membership("g", "1:1", "x")])
    assert scrapes.value("members", **GROUP) == 1
    for entry in (scrapes.folder / "memberships" / "_delta_log").glob("*.json"):
        entry.write_text("no log")
    scrapes.tables._readers[1]._history = None
    later = time.monotonic() + 300
    monkeypatch.setattr("time.monotonic", lambda: later)
    with structlog.testing.capture_logs() as lines:
        scrapes.write(assignments=[assignment("g", 0, "OK")])
        assert scrapes.queues("g") == {"OK": 1}
        assert scrapes.value("members", **GROUP) == 1
    assert [(line["log_level"], line["table"]) for line in lines if "table" in line] == [("error", "memberships")]
    ages = {dict(labels)["table"]: age for labels, age in scrapes.samples("table_age_seconds").items()}
    assert ages.pop("memberships") >= 300
    assert set(ages.values()) == {0}


def test_a_table_that_is_readable_again_is_current(scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch) -> None:
    scrapes.write(assignments=[assignment("g", 0, "UNOWNED")])
    with monkeypatch.context() as broken:
        broken.setattr(History, "rows", lambda *_: 1 / 0)
        assert scrapes.queues("g") == {}
    assert scrapes.queues("g") == {"UNOWNED": 1}


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Reads that hang until the event is set."""
    release, read = threading.Event(), module.TableReader.read
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(module.TableReader, "read", lambda reader: release.wait(30) and read(reader))
    yield release
    release.set()


def test_a_storage_that_hangs_holds_up_no_scrape(scrapes: Scrapes, hanging: threading.Event) -> None:
    scrapes.write(assignments=[assignment("g", 0, "OK")])
    assert scrapes.queues("g") == {}
    reading = scrapes.tables._reading
    assert scrapes.queues("g") == {}
    assert scrapes.tables._reading is reading
    hanging.set()
    assert reading is not None
    reading.join(30)
    scrapes.tables.close()
    assert scrapes.queues("g") == {"OK": 1}


def test_scrapes_within_the_cache_time_read_the_tables_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scrapes = Scrapes(tmp_path).write(assignments=[assignment("g", 0, "OK")])
    scrapes.tables._cache_seconds = 3600
    reads: list[str] = []
    monkeypatch.setattr(module.TableReader, "read", lambda reader: reads.append(reader.table))
    scrapes.tables._began_at = time.monotonic() - 3601
    for _ in range(3):
        scrapes.samples("queues")
    assert reads == [*QUERIES]


def test_a_table_without_changes_is_not_queried_again(scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch) -> None:
    scrapes.write(assignments=[assignment("g", 0, "OK")])
    assert scrapes.queues("g") == {"OK": 1}
    monkeypatch.setattr(History, "rows", lambda *_: pytest.fail("queried again"))
    assert scrapes.queues("g") == {"OK": 1}
    assert all(age < 60 for age in scrapes.samples("table_age_seconds").values())


@pytest.mark.parametrize("name", ["billing", "%RETRY%billing", "消费组", 'with "quotes" and \\', "a\nb", "\u2028\x85"])
def test_any_name_is_a_label_value_that_prometheus_reads_back(name: str) -> None:
    class One(TableMetrics):
        def _samples(self) -> Any:
            yield "balancewatch_groups", {"cluster": name}, 1

    families = {family.name: family for family in text_string_to_metric_families(Exporter(One(1)).text().decode())}
    (sample,) = families["balancewatch_groups"].samples
    assert sample.labels["cluster"] == name
