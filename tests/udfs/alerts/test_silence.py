"""Which silence covers an alert, at a moment and throughout a span."""

from hypothesis import given
from hypothesis import strategies as st

from udfs.alerts.silence import Silence, pick_silence, pick_silence_throughout

ALERT = {"kind": "starved_queue", "cluster": "prod"}


def silence(name: str, starts_at_ms: int, ends_at_ms: int, glob: str = "*") -> Silence:
    return Silence(name, {"cluster": (glob,)}, "ada", "release", starts_at_ms, ends_at_ms)


def test_it_covers_from_its_start_until_just_before_its_end() -> None:
    one = silence("s", 10, 20)
    assert [pick_silence([one], ALERT, now_ms) is one for now_ms in (9, 10, 19, 20)] == [False, True, True, False]


def test_of_several_the_one_that_ends_last_is_named() -> None:
    silences = [silence("short", 0, 60), silence("long", 0, 90), silence("other", 0, 99, "staging")]
    found = pick_silence(silences, ALERT, 50)
    assert found is not None
    assert found.silence_id == "long"


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 15)), max_size=6)


@given(spans, st.integers(0, 30), st.integers(0, 20))
def test_throughout_is_at_every_moment(given_spans: list[tuple[int, int]], from_ms: int, length_ms: int) -> None:
    silences = [silence(str(number), start, start + length) for number, (start, length) in enumerate(given_spans)]
    moments = range(from_ms, max(from_ms + length_ms, from_ms + 1))
    every = all(pick_silence(silences, ALERT, moment) for moment in moments)
    assert (pick_silence_throughout(silences, ALERT, from_ms, from_ms + length_ms) is not None) == every
