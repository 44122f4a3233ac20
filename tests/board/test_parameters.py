"""Query parameters: what is read of a URL, and the sentence for what cannot be used."""

import pytest

from streaming.board.url import AskedError, href, read_asked, read_choice, read_moment_ms, read_page, read_span_ms
from tests.board.tables import NOW_MS


def test_parameters_choices_numbers_and_links() -> None:
    """Parameters are trimmed and empty ones left out; links escape names and leave out None."""
    assert read_asked("?cluster=%20prod%20&kind=&state=FIRING", {"cluster", "kind", "state"}) == {
        "cluster": "prod",
        "state": "FIRING",
    }
    assert read_choice({}, "state", ("FIRING",)) == ""
    assert [read_page(asked, 500, 50) for asked in ({}, {"page": "7"}, {"page": "11"})] == [(1, 10), (7, 10), (10, 10)]
    with pytest.raises(AskedError, match="state = 'LOUD': choose one of FIRING"):
        read_choice({"state": "LOUD"}, "state", ("FIRING",))
    for text in ("0", "-1", "one", "1e3", "1" * 40):
        with pytest.raises(AskedError, match="give an integer from 1 to 999999"):
            read_page({"page": text}, 500, 50)
    assert href("/group", cluster="a&b", group="x y/ü", topic=None) == "/group?cluster=a%26b&group=x+y%2F%C3%BC"
    assert href("/alerts", {"kind": "starved_queue", "page": "3"}, page=None) == "/alerts?kind=starved_queue"


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ("?colour=red", "'colour' is not a parameter of this page; allowed: id."),
        ("?id=" + "x" * 513, "id is invalid: at most 512 characters, all printable, are allowed."),
        ("?id=a%00b", "id is invalid: at most 512 characters, all printable, are allowed."),
        ("?id=%ff", "The URL has more than 20 parameters or is not UTF-8."),
        ("?" + "&".join(["id=1"] * 21), "The URL has more than 20 parameters or is not UTF-8."),
    ],
)
def test_what_no_page_understands_is_said_in_a_sentence(search: str, sentence: str) -> None:
    with pytest.raises(AskedError) as error:
        read_asked(search, {"id"})
    assert str(error.value) == sentence


@pytest.mark.parametrize(("text", "ms"), [("30s", 30_000), ("5m", 300_000), ("24h", 86_400_000), ("7d", 604_800_000)])
def test_spans(text: str, ms: int) -> None:
    assert read_span_ms({"since": text}, "since", "1h") == ms


@pytest.mark.parametrize("text", ["0h", "-1h", "1w", "h", "1.5h", "9999999h", "999999d", "3651d"])
def test_what_is_no_span_names_the_value(text: str) -> None:
    with pytest.raises(AskedError, match="since = "):
        read_span_ms({"since": text}, "since", "24h")


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
