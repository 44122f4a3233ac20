"""A batch of plays, set up, played and taken down side by side; what breaks one does not end the others."""

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.field.plan import SETTLE_SECONDS, Wanted
from tests.field.play import Play
from tests.field.played import Played
from tests.field.stage import FieldStage, StoppedError

Say = Callable[[str], None]


@dataclass
class Failure:
    """A play that did not come to its end, and why."""

    name: str
    why: str


def play_batch(stage: FieldStage, batch: Sequence[Wanted], say: Say) -> tuple[list[Played], list[Failure]]:
    """Play all of it side by side from one second on; what cannot be started is a failure, and the others go on."""
    plays = [Play(stage, name, seed) for name, seed in batch]
    failures: list[Failure] = []
    lock = threading.Lock()

    def tried(play: Play, act: Callable[[Play], Played | None]) -> Played | None:
        try:
            return act(play)
        except StoppedError:
            return None
        except Exception as error:  # whatever one play breaks on, the others are played
            with lock:
                failures.append(Failure(play.name, f"{type(error).__name__}: {error}"))
            (play.folder / "failure.txt").write_text(traceback.format_exc())
            say(f"{play.name} failed: {error}")
            return None

    try:
        with ThreadPoolExecutor(len(plays)) as threads:
            list(threads.map(lambda play: tried(play, Play.set_up), plays))
            failed = {failure.name for failure in failures}
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
    return [one for one in played if one is not None], failures
