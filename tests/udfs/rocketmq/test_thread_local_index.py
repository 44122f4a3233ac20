"""ThreadLocalIndex by release, at the edges of Java's int."""

import pytest

from udfs.rocketmq.thread_local_index import MAX_VALUE, MIN_VALUE, increment_and_get


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
