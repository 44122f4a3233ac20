"""The moment that a URL asks for, in every form that it may have."""

import pytest

from streaming.board.url import AskedError, read_moment_ms

NOW_MS = 1_795_258_800_000


@pytest.mark.parametrize(
    ("value", "moment_ms"),
    [
        (None, None),
        ("", None),
        (str(NOW_MS - 5), NOW_MS - 5),
        (str(NOW_MS), None),
        (str(NOW_MS + 1), None),
        ("90s", NOW_MS - 90_000),
        ("2h", NOW_MS - 7_200_000),
        ("2026-11-21T10:00:00Z", NOW_MS - 3_600_000),
        ("2026-11-21T10:00:00", NOW_MS - 3_600_000),
        ("2026-11-21 11:00:00+01:00", NOW_MS - 3_600_000),
        ("2026-11-21T11:00:00 01:00", NOW_MS - 3_600_000),
        ("2026-11-21 11:00 0100", NOW_MS - 3_600_000),
        ("2026-11-21 10:00", NOW_MS - 3_600_000),
    ],
)
def test_epoch_ms_spans_and_iso_are_moments_and_now_is_none(value: str | None, moment_ms: int | None) -> None:
    asked = {} if value is None else {"at": value}
    assert read_moment_ms(asked, "at", NOW_MS) == moment_ms


@pytest.mark.parametrize("value", ["noon", "0", "12", "99999-01-01", "1970-01-01T00:00:00", "2h ago", "-5", "999999d"])
def test_what_is_no_moment_is_refused_with_the_value(value: str) -> None:
    with pytest.raises(AskedError, match=value.split(maxsplit=1)[0]):
        read_moment_ms({"at": value}, "at", NOW_MS)
