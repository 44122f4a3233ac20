"""Random kills while the log is still being written: the reference reads the same Kafka afterwards."""

import random
import threading
import time

from streaming.kafka_io.topics import create_topics
from tests.chaos.history import compare, newest_health
from tests.chaos.kills import Say, at_random
from tests.chaos.modelled_log import Source, modelled_events
from tests.chaos.outcome import Outcome
from tests.chaos.place import SERVE, Place

SECONDS_A_LIFE = 240
"""No life takes longer, so the log does not run out before the last kill."""

SPEED = 3.0


def kills_under_load(place: Place, name: str, count: int, seed: int, say: Say) -> Outcome:
    """The log is played, three times as fast as life, until the last kill."""
    began = time.monotonic()
    rng = random.Random(seed)
    settings = place.settings("under_load")
    create_topics(settings.kafka)
    source = Source(settings)
    log = modelled_events(int(count * SECONDS_A_LIFE * SPEED), seed)
    player = threading.Thread(target=source.play, args=(log, SPEED), daemon=True)
    player.start()
    try:
        kills = at_random(place, "under_load", count, rng, say, SERVE)
    finally:
        source.stop.set()
        player.join()
        source.close()
    history = place.drain("under_load")
    reference = place.drain("under_load_reference")
    comparison = compare(newest_health(reference), newest_health(history))
    return Outcome(name, kills, kills, comparison, time.monotonic() - began)
