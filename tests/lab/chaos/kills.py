"""Lives that end by SIGKILL: at a named point of a batch, or at random while the service works.

Under load the log is still being written meanwhile: the reference reads the same Kafka afterwards.
"""

import random
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from streaming.kafka_io.topics import create_topics
from tests.lab.chaos.history import History, Outcome
from tests.lab.chaos.modelled_log import modelled_log, with_bad
from tests.lab.chaos.place import DRAIN, SERVE, STARTS, ChaosError, Place
from tests.lab.chaos.victim import LIFE_SECONDS
from tests.support.laboratory import say
from tests.support.twins_log import publish

AT_START_SHARE = 0.2
"""Of the random kills, those that hit a service which is still starting."""

SECONDS_A_LIFE = 240
"""No life takes longer, so the log does not run out before the last kill."""

SPEED = 3.0


def at_points(place: Place, run: str, traps: Sequence[tuple[str, int]]) -> int:
    """Lives that end at each trap in turn; how many starts that took. Each trap must be met.

    A life that ends with a sentence is started again.
    """
    starts = 0
    for number, trap in enumerate(traps, 1):
        for _ in range(STARTS):
            victim = place.live(run, DRAIN, trap)
            code, errors = victim.wait(), victim.errors()
            starts += 1
            if code in (-signal.SIGKILL, 0) or not errors:
                break
            say(f"{run}: it ended: {errors[-1]}")
        if code != -signal.SIGKILL:
            raise ChaosError(f"{run}: {trap} was not met, the victim ended with {code}: {victim.printed()[-600:]}")
        say(f"{run}: kill {number} of {len(traps)}, at pass {trap[1]} of {trap[0]}")
    return starts


def killed_at(place: Place, point: str, passes: Sequence[int], reference: History) -> Outcome:
    """One run, killed at several passes of a point, then worked to its end."""
    starts = at_points(place, point, [(point, nth) for nth in passes])
    comparison = place.finish(point, reference)
    return Outcome(point, len(passes), starts, comparison)


def at_random(place: Place, run: str, count: int, rng: random.Random, arguments: tuple[str, ...] = DRAIN) -> int:
    """Lives ended at a random moment, most within a few batches, some while they start. How many were.

    Fewer than `count` when a run that drains has nothing left to do.
    """
    kills = by_itself = 0
    while kills < count:
        victim = place.live(run, arguments)
        is_early = rng.random() < AT_START_SHARE
        deadline = time.monotonic() + (rng.uniform(0, victim.start_seconds) if is_early else LIFE_SECONDS)
        while victim.is_alive() and not victim.has_written() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0 if is_early else rng.uniform(0, 3))
        if victim.is_alive():
            victim.kill()
            kills += 1
            say(f"{run}: kill {kills} of {count}, {'while it started' if is_early else 'at work'}")
            continue
        if (code := victim.wait()) == 0:
            return kills
        by_itself += 1
        say(f"{run}: it ended: {' '.join(victim.errors())}")
        if by_itself > STARTS or not victim.errors():
            raise ChaosError(f"{run}: ended by itself with {code}: {victim.printed()[-600:]}")
    return kills


def kills_under_load(place: Place, name: str, count: int, seed: int) -> Outcome:
    """The log is played, three times as fast as life, until the last kill."""
    settings, stop = place.settings("under_load"), threading.Event()
    create_topics(settings.kafka)
    log = with_bad(modelled_log(int(count * SECONDS_A_LIFE * SPEED), seed))
    with ThreadPoolExecutor(1) as thread:
        played = thread.submit(publish, settings, log, speed=SPEED, stop=stop)
        try:
            kills = at_random(place, "under_load", count, random.Random(seed), SERVE)
        finally:
            stop.set()
    played.result()
    return Outcome(name, kills, kills, place.compare_live("under_load"))
