"""The order of verdicts, worst first; the first four are problems."""

from collections.abc import Iterable, Mapping

from udfs.groups.queue_state import DOUBLE_CONSUMED, MISPLACED, NOT_CONSUMED, NOT_JUDGED, OK, UNKNOWN, UNOWNED

WORST_FIRST = (UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED, UNKNOWN, NOT_JUDGED, OK)

RANK: Mapping[str, int] = {name: rank for rank, name in enumerate(WORST_FIRST)}

WRONG = (UNOWNED, NOT_CONSUMED, DOUBLE_CONSUMED, MISPLACED)


def worst_first(names: Iterable[str]) -> list[str]:
    """Sort names by WORST_FIRST; unknown ones last."""
    return sorted(names, key=lambda name: (RANK.get(name, len(RANK)), name))
