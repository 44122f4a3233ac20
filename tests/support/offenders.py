"""One test over many files, fields or rows: a failure names every one of them that breaks the rule."""

from collections.abc import Iterable


def assert_none(offenders: Iterable[object]) -> None:
    """Fails with each offender on a line of its own."""
    __tracebackhide__ = True
    found = [str(one) for one in offenders]
    assert not found, "\n".join([f"{len(found)} break it:", *found])
