"""Kafka goes away while the service runs: frozen, then stopped and started on the same port and data."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from tests.lab.chaos.history import Outcome
from tests.lab.chaos.modelled_log import Source, modelled_log
from tests.lab.chaos.place import SERVE, ChaosError, Place
from tests.lab.chaos.victim import LIFE_SECONDS, Victim
from tests.support.freezing import freeze
from tests.support.laboratory import say

SPEED = 5.0
SCENARIOS = ("twins", "lost_host", "slow_broker")
WORK_SECONDS = 30.0
"""How long the service works before, between and after the outages, with events coming in."""

RUN = "kafka_away"


def kafka_away(place: Place, seconds: float, seed: int) -> Outcome:
    """Two outages of `seconds` each under load. Afterwards `place.kafka` is another process on the same port.

    A service that ends must have said why in one sentence, and is started again, as systemd would.
    """
    source = Source(place.settings(RUN))
    log = modelled_log(int((3 * WORK_SECONDS + 60) * SPEED), seed, SCENARIOS)
    victim = Victim(place.settings(RUN), place.log_of(RUN), SERVE)
    restarts, remark = 0, ""

    def work(seconds: float) -> None:
        nonlocal restarts, remark
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not victim.is_alive():
                code, errors = victim.wait(), victim.errors()
                if code != 1 or len(errors) != 1:
                    remark = f"it ended with {code} and said {errors or victim.printed()[-300:]}"
                say(f"{RUN}: it ended: {' '.join(errors)}")
                victim.start()
                restarts += 1
            time.sleep(0.2)

    try:
        with source.playing(log, SPEED):
            deadline = time.monotonic() + LIFE_SECONDS
            while not victim.has_written():
                if time.monotonic() > deadline:
                    raise ChaosError(f"{RUN}: no batch: {victim.printed()[-600:]}")
                work(0.2)
            for name, away in (("frozen", _frozen), ("stopped", _stopped)):
                work(WORK_SECONDS)
                with source.held(), away(place):
                    work(seconds)
                say(f"{RUN}: Kafka was {name} for {seconds:.0f} s")
            work(WORK_SECONDS)
        if code := victim.stop():
            raise ChaosError(f"{RUN} ended with {code}: {' '.join(victim.errors())}")
    except BaseException:
        victim.kill()
        raise
    return Outcome("Kafka away twice", 0, restarts, place.compare_live(RUN), remark)


@contextlib.contextmanager
def _frozen(place: Place) -> Iterator[None]:
    freeze(place.kafka.pid)
    try:
        yield
    finally:
        os.kill(place.kafka.pid, signal.SIGCONT)


@contextlib.contextmanager
def _stopped(place: Place) -> Iterator[None]:
    """The data folder and the port stay."""
    kafka = place.kafka
    kafka.stop()
    yield
    place.kafka = EmbeddedKafka(place.settings("kafka").paths.jars, kafka.data_dir, kafka.port)
