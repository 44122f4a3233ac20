"""ThreadLocalIndex by release, at the edges of Java's int, and Java's arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE, absolute, increment_and_get, remainder, wrap

ints = st.integers(MIN_VALUE, MAX_VALUE)


@pytest.mark.parametrize(
    ("version", "index", "value", "kept"),
    [
        ("4.7.1", 7, 8, 8),
        ("4.7.1", -9, 8, 8),
        ("4.7.1", MAX_VALUE, 0, 0),
        ("4.8.0", -9, 8, 8),
        ("4.8.0", MAX_VALUE, MIN_VALUE, MIN_VALUE),
        ("4.8.0", MIN_VALUE, MAX_VALUE, MAX_VALUE),
        ("4.9.3", -9, 8, -8),
        ("4.9.3", MAX_VALUE, MIN_VALUE, MIN_VALUE),
        ("4.9.4", -9, MAX_VALUE - 7, -8),
        ("4.9.4", MAX_VALUE, 0, MIN_VALUE),
        ("5.0.0", -1, 0, 0),
        ("5.5.0", -2, MAX_VALUE, -1),
    ],
)
def test_what_is_given_and_what_is_kept(version: str, index: int, value: int, kept: int) -> None:
    assert increment_and_get(index, version) == (value, kept)


def test_a_thread_of_4_8_0_that_comes_to_the_end_never_leaves_it() -> None:
    """So after 2^31 selections it knows two queues of any topic."""
    values, index = [], MAX_VALUE - 1
    for _ in range(4):
        value, index = increment_and_get(index, "4.8.0")
        values.append(value)
    assert values == [MAX_VALUE, MIN_VALUE, MAX_VALUE, MIN_VALUE]


@given(ints, st.sampled_from(["4.0.0", "4.7.1", "4.9.4", "4.9.8", "5.0.0", "5.1.4", "5.5.0"]))
def test_the_value_is_never_negative_in_releases_that_guard_it(index: int, version: str) -> None:
    value, kept = increment_and_get(index, version)
    assert 0 <= value <= MAX_VALUE
    assert MIN_VALUE <= kept <= MAX_VALUE


@given(ints, st.integers(1, MAX_VALUE))
def test_remainder_has_the_sign_of_what_is_divided(value: int, divisor: int) -> None:
    rest = remainder(value, divisor)
    assert abs(rest) < divisor
    assert (value - rest) % divisor == 0
    assert rest == 0 or (rest < 0) == (value < 0)


@given(st.integers(-(1 << 40), 1 << 40))
def test_an_int_wraps(value: int) -> None:
    assert MIN_VALUE <= wrap(value) <= MAX_VALUE
    assert (wrap(value) - value) % (1 << 32) == 0


def test_the_smallest_int_is_its_own_absolute_value() -> None:
    assert (absolute(MIN_VALUE), absolute(MIN_VALUE + 1), absolute(-3), absolute(3)) == (MIN_VALUE, MAX_VALUE, 3, 3)
