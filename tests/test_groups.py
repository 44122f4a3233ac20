"""That tests which share a server stay together when they are spread over processes."""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_is_part_of_a_tests_id_where_groups_are_spread(request: pytest.FixtureRequest) -> None:
    """By it xdist keeps the tests of a group in one process; without it each starts servers of its own, unseen."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@groups")


def test_whoever_uses_the_one_kafka_is_of_a_group(request: pytest.FixtureRequest) -> None:
    """But for a run of some tests, in which there may be none."""
    shares = [item for item in request.session.items if "kafka" in getattr(item, "fixturenames", ())]
    assert [item.nodeid for item in shares if item.get_closest_marker("xdist_group") is None] == []
