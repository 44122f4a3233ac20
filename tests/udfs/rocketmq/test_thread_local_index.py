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
