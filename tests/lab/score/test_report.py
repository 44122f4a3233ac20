"""The tables of the score: a row a kind and cause, and a row a dimension, on a terminal of 140 columns."""

import io

from rich.console import Console

from streaming.simulator.conditions import Conditions
from tests.lab.score.match import Tally
from tests.lab.score.report import print_report, report_of
from tests.lab.score.run import Run, Score

TALLY = Tally(required=9, in_time=8, ended=7, resolved=6, reported=5, claims=20, right=12, early=1, late=3, endless=4)
KEY = ("starved_queue", "member_not_subscribed")
RUN = Run("twins", 1, None, Conditions("collector", 10_000), "rollout 200 one_by_one stable", has_second_group=True)


def printed() -> list[str]:
    tally = Tally(**{**vars(TALLY), "delays_ms": [(60_000, 110_000), (90_000, 110_000)], "recovery_ms": [65_000]})
    report = {"seeds": 1, "seconds": 1.0, **report_of([RUN], [Score({KEY: tally}, [], 0)])}
    console = Console(file=io.StringIO(), width=140)
    print_report(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_row_has_what_was_detected_and_resolved_in_time_and_every_sort_of_wrong_claim() -> None:
    row = next(line for line in printed() if "member_not_subscribed" in line)
    figures = "9 8 6/7 0.556 20 0.600 1 3 4 75, 90 110 65, 65"
    assert " ".join(row.split()) == f"starved_queue, member_not_subscribed {figures}"


def test_tables_fit_140_columns_without_folding_a_kind() -> None:
    assert max(map(len, printed())) <= 140
    assert sum("member_not_subscribed" in line for line in printed()) == 1
