"""Batches of plays. Those that affect only themselves run side by side, the others one after the other.

A batch is set up, played and taken down side by side; an error in one play does not end the others.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.lab.field.play import Play
from tests.lab.field.played import Played
from tests.lab.field.scenario import load_scenario
from tests.lab.field.stage import FieldStage, StoppedError
from tests.support.laboratory import say

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
    """Return about how many seconds they take, starts included."""
    return sum(
        max(load_scenario(name).seconds for name, _ in batch)
        + SETTLE_SECONDS
        + processes_of(batch) * each_start_seconds
        for batch in batches
    )


def _longest_first(wanted: Wanted) -> tuple[float, str, int]:
    name, seed = wanted
    return -load_scenario(name).seconds, name, seed


def play_batch(stage: FieldStage, batch: Sequence[Wanted]) -> tuple[list[Played], list[str]]:
    """Play all of it side by side from one second on; return the plays, and why others did not come to their end."""
    plays = [Play(stage, name, seed) for name, seed in batch]
    failures: list[tuple[str, str]] = []

    def tried(play: Play, act: Callable[[Play], Played | None]) -> Played | None:
        try:
            return act(play)
        except StoppedError:
            return None
        except Exception as error:  # whatever one play breaks on, the others are played
            failures.append((play.name, f"{type(error).__name__}: {error}"))
            (play.folder / "failure.txt").write_text(traceback.format_exc())
            say(f"{play.name} failed: {error}")
            return None

    try:
        with ThreadPoolExecutor(len(plays)) as threads:
            list(threads.map(lambda play: tried(play, Play.set_up), plays))
            failed = {name for name, _ in failures}
            ready = [play for play in plays if play.name not in failed]
            for play in plays:
                if play.name in failed:
                    tried(play, Play.tear_down)
            say(f"{sum(len(play.clients) for play in ready)} clients have started")
            start_s = time.time() + SETTLE_SECONDS / stage.clocks.factor

            def perform(play: Play) -> Played | None:
                played = tried(play, lambda one: one.play(start_s))
                say(f"{play.name} ends")
                tried(play, Play.tear_down)
                return played

            played = list(threads.map(perform, ready))
    finally:
        for play in plays:
            play.close()
    stage.run.check()
    stage.collector.check()
    return [one for one in played if one is not None], [f"{name}: {why}" for name, why in failures]
