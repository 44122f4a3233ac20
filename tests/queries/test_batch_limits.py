"""A batch that runs again was cut, or not, by the limit that it was planned under."""

import json
from pathlib import Path
from typing import Any

from streaming.queries.checkpoint import limit_of, note_limit
from streaming.queries.running import publish_plan
from streaming.queries.waiting import PLAN_PROPERTY

PULLS = "rocketmq.pulls"


def begin(checkpoint: Path, batch_id: int, until: int) -> None:
    """As Spark does before a batch runs."""
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id": "one"}')
    (checkpoint / "sources" / "0" / "0").write_text(f'v1\n{{"{PULLS}": {{"0": 0}}}}')
    (checkpoint / "offsets" / str(batch_id)).write_text(f'v1\n{{}}\n{{"{PULLS}": {{"0": {until}}}}}')


def end(checkpoint: Path, batch_id: int) -> None:
    (checkpoint / "commits" / str(batch_id)).touch()


class Context:
    """Spark's, as far as a plan is told."""

    reported: list[Any]

    def setLocalProperty(self, name: str, text: str) -> None:  # noqa: N802  # Spark's name
        assert name == PLAN_PROPERTY
        self.reported = json.loads(text)


def is_cut(checkpoint: Path, batch_id: int, limit: int | None) -> bool:
    context: Any = Context()
    publish_plan(context, checkpoint, batch_id, limit)
    return bool(context.reported[0])


def test_a_batch_that_was_killed_is_cut_as_it_was_though_the_limit_is_another_now(tmp_path: Path) -> None:
    assert note_limit(tmp_path, 400) == [(0, 400)]
    begin(tmp_path, 0, 400)
    end(tmp_path, 0)
    begin(tmp_path, 1, 800)  # killed
    limits = note_limit(tmp_path, 1_000_000)
    assert [limit_of(limits, batch_id) for batch_id in (0, 1, 2)] == [400, 400, 1_000_000]
    assert is_cut(tmp_path, 1, limit_of(limits, 1))
    assert note_limit(tmp_path, 1_000_000) == limits, "killed once more before the batch had ended"


def test_a_batch_that_was_planned_and_never_begun_under_a_limit_takes_the_next(tmp_path: Path) -> None:
    note_limit(tmp_path, 400)
    assert note_limit(tmp_path, 0) == [(0, 0)], "none was planned under the first"


def test_of_a_checkpoint_that_knows_no_limits_a_killed_batch_may_have_been_cut(tmp_path: Path) -> None:
    begin(tmp_path, 3, 10)
    begin(tmp_path, 4, 20)
    limits = note_limit(tmp_path, 0)
    assert limit_of(limits, 4) is None
    assert is_cut(tmp_path, 4, None)
    assert limit_of(limits, 5) == 0


def test_limits_that_do_not_change_are_written_once(tmp_path: Path) -> None:
    for batch_id in range(3):
        assert note_limit(tmp_path, 400) == [(0, 400)]
        begin(tmp_path, batch_id, 400 * (batch_id + 1))
        end(tmp_path, batch_id)
    assert json.loads((tmp_path / "limits.json").read_text()) == [[0, 400]]
