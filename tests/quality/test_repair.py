"""Fields set and taken away, and what cannot be mended so."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.events import EVENTS
from streaming.quality.quarantine_printing import print_message
from streaming.quality.repair import RepairError, judge, parse_sets, pretty, read_object, set_fields
from tests.schemas.samples import BAD, GOOD, INGEST_TIME_MS

EVENT = {"a": 1, "b": {"c": 2}, "d": [{"e": 3}, {"e": 4}]}


@pytest.mark.parametrize(
    ("sets", "unsets", "mended"),
    [
        (["a=5"], [], {**EVENT, "a": 5}),
        (["a=five"], [], {**EVENT, "a": "five"}),
        (['a="5"'], [], {**EVENT, "a": "5"}),
        (["a="], [], {**EVENT, "a": ""}),
        (["x=null", "y=[1,2]"], [], {**EVENT, "x": None, "y": [1, 2]}),
        (["b.c=7", "b.new=8"], [], {**EVENT, "b": {"c": 7, "new": 8}}),
        (["d[1].e=9"], [], {**EVENT, "d": [{"e": 3}, {"e": 9}]}),
        (['d[2]={"e": 5}'], [], {**EVENT, "d": [{"e": 3}, {"e": 4}, {"e": 5}]}),
        ([], ["a", "d[0]"], {"b": {"c": 2}, "d": [{"e": 4}]}),
        (["a=x=y"], [], {**EVENT, "a": "x=y"}),
    ],
)
def test_fields_are_set_and_taken_away(sets: list[str], unsets: list[str], mended: dict[str, Any]) -> None:
    assert json.loads(set_fields(json.loads(json.dumps(EVENT)), parse_sets(sets), unsets)) == mended


@pytest.mark.parametrize(
    ("sets", "unsets", "sentence"),
    [
        (["b.x.y=1"], [], "field 'b.x.y' does not exist"),
        (["d[7].e=1"], [], "field 'd[7].e' does not exist"),
        (["d.e=1"], [], "field 'd.e' does not exist"),
        (["a[0]=1"], [], "field 'a[0]' does not exist"),
        (["a..b=1"], [], "is invalid; write a, a.b or a[0].b"),
        ([".".join("a" * 99) + "=1"], [], "is invalid; write a, a.b or a[0].b"),
        ([], ["zzz"], "--unset zzz: the event has no such field"),
        (["a=NaN"], [], None),
    ],
)
def test_what_is_not_there_is_reported(sets: list[str], unsets: list[str], sentence: str | None) -> None:
    event = json.loads(json.dumps(EVENT))
    if sentence is None:
        assert judge("rocketmq.pulls", set_fields(event, parse_sets(sets), unsets), INGEST_TIME_MS)[1]
        return
    with pytest.raises(RepairError) as raised:
        set_fields(event, parse_sets(sets), unsets)
    assert sentence in str(raised.value)


@pytest.mark.parametrize("text", ["queue_id", "=3", " =3"])
def test_a_set_without_a_field_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(RepairError, match="give FIELD=VALUE"):
        parse_sets([text])


@pytest.mark.parametrize("raw", [None, b"", b"\xff", b"[1]", b"{" * 99_999, b'{"a":"' + b"x" * (2 << 20) + b'"}'])
def test_what_is_no_object_takes_a_whole_event_instead(raw: bytes | None) -> None:
    with pytest.raises(RepairError, match="--file"):
        read_object(raw)


@pytest.mark.parametrize("sample", BAD, ids=lambda sample: sample.name)
def test_every_bad_sample_is_good_with_the_good_ones_content(sample: Any) -> None:
    good = next(one for one in GOOD if one.topic == sample.topic)
    assert judge(sample.topic, sample.value, INGEST_TIME_MS)[1]
    assert judge(good.topic, good.value, INGEST_TIME_MS)[1] == []


def test_a_topic_that_is_none_of_ours_is_never_good() -> None:
    assert judge("other", b"{}", INGEST_TIME_MS)[1] == ["unknown topic: other"]
    assert "other" not in EVENTS


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b'{"a": "\xe8\xae\xa2", "b": [1]}', '"a": "订"'),
        (b"\x1b[31mred", "00000000  1b 5b 33 31 6d 72 65 64"),
        ('{"a": "\u009b31m"}'.encode(), "\\x9b"),
        (None, "no value"),
        (b"\x00" * 5_000, "3,976 bytes more; --raw prints all"),
        (json.dumps({"a": "x" * 50_000}).encode(), "characters more; --raw prints all"),
    ],
    ids=["JSON", "an escape", "a C1 control", "null", "many bytes", "long JSON"],
)
def test_nothing_a_terminal_would_obey_is_shown(
    raw: bytes | None, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"topic": "rocketmq.pulls", "partition": 0, "offset": 1, "ingest_time": time, "state": "WAITING"}
    print_message({**row, "reasons": ["not_json"], "raw": raw, "repaired": None})
    printed = capsys.readouterr().out
    assert shown in printed
    assert all(sign.isprintable() or sign == "\n" for sign in printed)


def test_pretty_is_none_for_what_is_no_json() -> None:
    assert pretty(b"\xff") is None
    assert pretty(b'{"b": 1, "a": 2}') == '{\n  "b": 1,\n  "a": 2\n}'
