"""A client's release is read from what clients really send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.rocketmq.version import NEWEST, parse_client_version, release_of


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("4.9.8", (4, 9, 8)),
        ("V4_9_8", (4, 9, 8)),
        ("v5.1.4", (5, 1, 4)),
        ("V5_0_0_ALPHA_SNAPSHOT", (5, 0, 0)),
        ("5.1.4-SNAPSHOT", (5, 1, 4)),
        ("5.1", (5, 1, 0)),
        (" 4.7.1\n", (4, 7, 1)),
        ("5.10.12", (5, 10, 12)),
    ],
)
def test_a_named_release_is_three_numbers(text: str, release: tuple[int, int, int]) -> None:
    assert parse_client_version(text) == release


@pytest.mark.parametrize("text", ["", "HIGHER_VERSION", "unknown", "409", "V", "5.", "9" * 5000, "٤.٩.٨"])
def test_text_that_names_no_release_counts_as_the_newest(text: str) -> None:
    assert parse_client_version(text) == NEWEST


@given(st.tuples(*[st.integers(0, 9999)] * 3))
def test_both_spellings_of_a_release_agree(release: tuple[int, int, int]) -> None:
    dotted = ".".join(map(str, release))
    assert parse_client_version(dotted) == parse_client_version("V" + dotted.replace(".", "_")) == release
    assert release_of(dotted) == release_of(release) == release
