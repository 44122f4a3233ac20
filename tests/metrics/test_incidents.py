"""Open incidents, counted as their rows come."""

from streaming.metrics.clusters import Clusters
from streaming.metrics.exporter import Exporter
from streaming.metrics.incidents import Incidents
from tests.metrics.samples import alert, samples


def counted(*batches: list[dict[str, object]]) -> dict[tuple[str, str, str], int]:
    """(kind, state, is_inhibited) to how many are open, zeros left out."""
    exporter = Exporter()
    incidents = Incidents(exporter, Clusters(10))
    for rows in batches:
        incidents.update(rows)
    said = {key: count for key, count in samples(exporter, "balancewatch_incidents").items() if count}
    return {
        (dict(key)["kind"], dict(key)["state"], dict(key)["is_inhibited"]): int(count) for key, count in said.items()
    }


def test_an_incident_counts_once_under_its_newest_state() -> None:
    life = [alert("i", "PENDING"), alert("i", "FIRING"), alert("j", "FIRING")]
    assert counted(life) == {("starved_queue", "FIRING", "false"): 2}
    assert counted(life, [alert("i", "RECOVERING")]) == {
        ("starved_queue", "FIRING", "false"): 1,
        ("starved_queue", "RECOVERING", "false"): 1,
    }


def test_what_is_over_is_seen_as_zero_and_not_as_nothing() -> None:
    exporter = Exporter()
    Incidents(exporter, Clusters(10)).update([alert("i", "FIRING"), alert("i", "RESOLVED")])
    assert list(samples(exporter, "balancewatch_incidents").values()) == [0]


def test_an_effect_is_told_apart_from_its_cause() -> None:
    assert counted([alert("i", "FIRING", inhibited_by="j")]) == {("starved_queue", "FIRING", "true"): 1}


def test_a_batch_that_is_run_again_counts_nothing_twice() -> None:
    rows = [alert("i", "FIRING"), alert("i", "RESOLVED"), alert("j", "FIRING")]
    assert counted(rows, rows) == counted(rows) == {("starved_queue", "FIRING", "false"): 1}


def test_the_canarys_own_are_left_out() -> None:
    assert counted([alert("i", "FIRING", cluster="balancewatch_canary")]) == {}
