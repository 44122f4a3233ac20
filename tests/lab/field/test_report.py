"""The table of a session: what it says of kinds, of plays beside RocketMQ's own tools, and of what fell short."""

from pathlib import Path

import pytest

from tests.lab.field.judge import Verdict
from tests.lab.field.others import ask_others, read_others
from tests.lab.field.played import Played
from tests.lab.field.report import markdown_of, report_of, short_of
from tests.lab.field.scenario import load_scenario, scenario_names
from tests.lab.field.session import batches_of, processes_of
from tests.lab.field.stored import judge_stored, read_alert_rows
from tests.lab.score.claims import claims_of
from tests.lab.score.match import Tally
from tests.support.modelled_warehouse import START_MS, fill_warehouse

PLAYED = Played("frozen", 1, "_frozen_b", 0.0, 0, 330_000, ())


def verdict(**changes: object) -> Verdict:
    tally = Tally(required=2, in_time=2, ended=2, resolved=1, reported=1, claims=3, right=1, early=1, late=1)
    tally.delays_ms, tally.recovery_ms = [(60_000, 70_000), (80_000, 70_000)], [75_000]
    return Verdict(**{"tallies": {("starved_queue", "frozen_client"): tally}, **changes})  # type: ignore[arg-type]


def test_a_report_has_a_row_a_kind_and_a_row_a_play() -> None:
    others = {PLAYED.name: {"consumerStatus order-service_frozen_b": ""}}
    text = markdown_of(report_of(verdict(), [(PLAYED, verdict())], others))
    cells = "2 | 2 | 1/2 | 0.500 | 3 | 0.333 | 1 | 1 |  | 70, 80 | 70 | 75, 75"
    assert f"| `starved_queue, frozen_client` | {cells} |" in text
    assert "| frozen | 1 | `starved_queue, frozen_client` | nothing wrong |  | yes |" in text
    assert "What fell short" not in text


def test_everything_that_falls_short_is_a_sentence() -> None:
    one = verdict(surprises=["a"], absent=["b"], unended=["c"], afterwards=["x"], false_pages=["d"], quiet_ms=1_800_000)
    one.tallies["group_offline", None] = Tally(missed=["e"], wrong=["f"])
    report = report_of(one, [], {})
    assert short_of(report) == [
        "missed: e",
        "wrong: f",
        "surprises: a",
        "absent: b",
        "unended: c",
        "afterwards: x",
        "false pages: d",
    ]
    assert "False pages in 0.5 quiet hours: 1." in markdown_of(report)
    assert not report["is_right"]


@pytest.mark.parametrize(
    ("tool", "printed", "complaint"),
    [
        ("consumerStatus", "Subscription OK\n...\nRebalance OK\n", ""),
        ("consumerStatus", "WARN: client 1 not same subscription\n", "WARN: client 1 not same subscription"),
        ("consumerProgress", "Consume TPS: 8.00\nConsume Diff Total: 0\n", ""),
        ("consumerProgress", "Consume TPS: 8.00\nConsume Diff Total: 120\n", "Diff Total: 120"),
    ],
)
def test_rocketmqs_tools_complain_in_their_own_words(tmp_path: Path, tool: str, printed: str, complaint: str) -> None:
    ask_others(lambda *asked: printed if asked[0] == tool else "", ["g"], tmp_path)
    assert read_others(tmp_path)[f"{tool} g"] == complaint


def test_scenarios_that_hurt_brokers_are_played_alone_and_the_longest_last() -> None:
    batches = batches_of([(name, 1) for name in scenario_names()], 50)
    for batch in batches:
        assert len(batch) == 1 or not any(load_scenario(name).alone for name, _ in batch)
        assert processes_of(batch) <= 50
    assert sorted(name for batch in batches for name, _ in batch) == scenario_names()
    assert batches[-1] == [("quiet_hour", 1)]
    assert batches_of([("frozen", 1), ("frozen", 2)], 50) == [[("frozen", 1)], [("frozen", 2)]]


def test_a_session_is_judged_from_what_it_left_on_disk(tmp_path: Path) -> None:
    (tmp_path / "plays" / "frozen_b").mkdir(parents=True)
    PLAYED.write(tmp_path / "plays" / "frozen_b")
    (tmp_path / "alerts.json").write_text("\n")
    report = judge_stored(tmp_path)
    assert [(row["scenario"], row["reported"]) for row in report["plays"]] == [("frozen", [])]
    assert report["absent"] == ["frozen 1: starved_queue frozen_client"]


def test_the_rows_of_the_alerts_table_have_their_times_in_ms(tmp_path: Path) -> None:
    assert read_alert_rows(tmp_path) == []
    fill_warehouse(tmp_path, ("twins",))
    rows = read_alert_rows(tmp_path)
    assert {row["kind"] for row in rows} >= {"duplicate_client_id", "starved_queue"}
    assert [row["changed_at"] for row in rows] == sorted(row["changed_at"] for row in rows)
    assert START_MS <= rows[0]["changed_at"] < START_MS + 360_000
    assert {claim.cause for claim in claims_of(rows) if claim.kind == "starved_queue"} == {"duplicate_client_id"}
