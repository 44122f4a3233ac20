"""A file's bounds hold for every one of its values, or are not told."""

import json
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streaming.warehouse.appender import LONGEST, statistics_of

TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(UTC))
COLUMNS = {
    "text": (pa.string(), st.text(max_size=LONGEST + 3)),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "share": (pa.float64(), st.floats()),
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "is": (pa.bool_(), st.booleans()),
    "raw": (pa.binary(), st.binary(max_size=5)),
    "names": (pa.list_(pa.string()), st.lists(st.text(max_size=3), max_size=2)),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | of for name, (_, of) in COLUMNS.items()}), min_size=1, max_size=8
)


def _reported(name: str, bound: object) -> object:
    return datetime.fromisoformat(str(bound)) if name == "at" else bound


@given(ROWS)
def test_every_value_is_within_the_bounds_that_are_reported(rows: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(rows, pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()]))
    reported = json.loads(statistics_of(table), parse_constant=_refuse)
    assert reported["numRecords"] == len(rows)
    for name in COLUMNS:
        values = [row[name] for row in rows if row[name] is not None]
        assert reported["nullCount"][name] == len(rows) - len(values)
        for value in values if name in reported["minValues"] else []:
            assert _reported(name, reported["minValues"][name]) <= value <= _reported(name, reported["maxValues"][name])  # type: ignore[operator]
    assert set(reported["minValues"]) == set(reported["maxValues"]) <= {"text", "whole", "share", "at"}


def _refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def test_a_bound_of_time_is_a_whole_millisecond_around_the_value() -> None:
    at = datetime(2026, 11, 22, 3, 12, 0, 123_456, tzinfo=UTC)
    reported = json.loads(statistics_of(pa.table({"at": pa.array([at], pa.timestamp("us", "UTC"))})))
    assert reported["minValues"] == {"at": "2026-11-22T03:12:00.123Z"}
    assert reported["maxValues"] == {"at": "2026-11-22T03:12:00.124Z"}
