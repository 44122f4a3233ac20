"""Kafka goes away while the service runs: frozen, then stopped and started on the same port and data."""

import os
import signal
import threading
import time
from collections.abc import Callable

from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from tests.lab.chaos.history import Outcome
from tests.lab.chaos.kills import Say
from tests.lab.chaos.modelled_log import Source, modelled_log
from tests.lab.chaos.place import SERVE, ChaosError, Place
from tests.lab.chaos.victim import LIFE_SECONDS, Victim
from tests.support.freezing import freeze

SPEED = 5.0
SCENARIOS = ("twins", "lost_host", "slow_broker")
WORK_SECONDS = 30.0
"""How long the service works before, between and after the outages, with events coming in."""


class Outage:
    """The service, the log that is played, and what became of the service in each outage."""

    def __init__(self, place: Place, run: str, say: Say) -> None:
        self.restarts, self.remark = 0, ""
        self._place, self._run, self._say = place, run, say
        self._victim = self._start()

    def _start(self) -> Victim:
        return Victim(self._place.settings(self._run), self._place.log_of(self._run), SERVE)

    def work(self, seconds: float) -> None:
        """Let it run on; one that ended must have said why in one sentence, and is started again, as systemd would."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self._victim.is_alive():
                self._start_again()
            time.sleep(0.2)

    def _start_again(self) -> None:
        code, errors = self._victim.wait(), self._victim.errors()
        if code != 1 or len(errors) != 1:
            self.remark = f"it ended with {code} and said {errors or self._victim.printed()[-300:]}"
        self._say(f"{self._run}: it ended: {' '.join(errors)}")
        self._victim = self._start()
        self.restarts += 1

    def wait_for_batch(self) -> None:
        deadline = time.monotonic() + LIFE_SECONDS
        while not self._victim.has_written():
            if time.monotonic() > deadline:
                raise ChaosError(f"{self._run}: no batch: {self._victim.printed()[-600:]}")
            self.work(0.2)

    def end(self) -> None:
        code = self._victim.stop()
        if code:
            raise ChaosError(f"{self._run} ended with {code}: {' '.join(self._victim.errors())}")

    def kill(self) -> None:
        """For when the scenario itself failed."""
        self._victim.kill()


def kafka_away(place: Place, seconds: float, seed: int, say: Say) -> Outcome:
    """Two outages of `seconds` each under load. Afterwards `place.kafka` is another process on the same port."""
    began = time.monotonic()
    run = "kafka_away"
    source = Source(place.settings(run))
    log = modelled_log(int((3 * WORK_SECONDS + 60) * SPEED), seed, SCENARIOS)
    player = threading.Thread(target=source.play, args=(log, SPEED), daemon=True)
    outage = Outage(place, run, say)
    try:
        player.start()
        outage.wait_for_batch()
        for name, be_away in (("frozen", _freeze), ("stopped", _stop)):
            outage.work(WORK_SECONDS)
            with source.held():
                be_away(place, lambda: outage.work(seconds))
            say(f"{run}: Kafka was {name} for {seconds:.0f} s")
        outage.work(WORK_SECONDS)
        source.stop.set()
        player.join()
        outage.end()
    except BaseException:
        outage.kill()
        raise
    finally:
        source.stop.set()
        source.close()
    comparison = place.compare_live(run)
    return Outcome("Kafka away twice", 0, outage.restarts, comparison, time.monotonic() - began, outage.remark)


def _freeze(place: Place, meanwhile: Callable[[], None]) -> None:
    freeze(place.kafka.pid)
    try:
        meanwhile()
    finally:
        os.kill(place.kafka.pid, signal.SIGCONT)


def _stop(place: Place, meanwhile: Callable[[], None]) -> None:
    """The data folder and the port stay."""
    kafka = place.kafka
    kafka.stop()
    meanwhile()
    place.kafka = EmbeddedKafka(place.settings("kafka").paths.jars, kafka.data_dir, kafka.port)
