"""Which plays are played when: those that hurt only themselves side by side, the others one after the other."""

from collections.abc import Sequence

from tests.field.scenario import load_scenario

Wanted = tuple[str, int]
"""A scenario's name and a seed."""

SETTLE_SECONDS = 20.0
"""From the last client's start to second 0: each has rebalanced, and heartbeats are at every broker."""


def batches_of(wanted: Sequence[Wanted], most_processes: int) -> list[list[Wanted]]:
    """Long ones first, as many side by side as JVMs allow; then each that is alone, the longest last.

    A scenario's seeds are not played side by side.
    """
    batches: list[list[Wanted]] = []
    for name, seed in sorted((one for one in wanted if not load_scenario(one[0]).alone), key=_longest_first):
        for batch in batches:
            if name not in dict(batch) and processes_of([*batch, (name, seed)]) <= most_processes:
                batch.append((name, seed))
                break
        else:
            batches.append([(name, seed)])
    alone = sorted((one for one in wanted if load_scenario(one[0]).alone), key=_longest_first, reverse=True)
    return [*batches, *([one] for one in alone)]


def processes_of(batch: Sequence[Wanted]) -> int:
    """JVMs of all its clients."""
    return sum(load_scenario(name).processes for name, _ in batch)


def seconds_of(batches: Sequence[Sequence[Wanted]], each_start_seconds: float = 2.0) -> float:
    """About how long they take, starts included."""
    return sum(
        max(load_scenario(name).seconds for name, _ in batch)
        + SETTLE_SECONDS
        + processes_of(batch) * each_start_seconds
        for batch in batches
    )


def _longest_first(wanted: Wanted) -> tuple[float, str, int]:
    name, seed = wanted
    return -load_scenario(name).seconds, name, seed
