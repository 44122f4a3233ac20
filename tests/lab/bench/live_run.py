"""`balancewatch run` as a user starts it: its own process, its log beside the bench's results."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conf.settings import Settings
from tests.support.service_process import ServiceProcess

LOG = Path(".bench/run.log")


class LiveRun(ServiceProcess):
    """`pid` is the process that was started, of which the others descend."""

    def sleep(self, seconds: float) -> None:
        """Raises ServiceEndedError when it ends meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(0.5, left))

    def wait_until_written(self, checkpoints: Path) -> None:
        """Return when a first batch is done. Raises ServiceEndedError, TimeoutError."""
        self.wait_until(lambda: any(checkpoints.glob("*/commits/[0-9]*")))


@contextmanager
def live_run(settings: Settings, **more: str) -> Iterator[LiveRun]:
    """Started on Kafka, warehouse and checkpoints of `settings`, with defaults otherwise; `more` are other settings,
    `ONCALL__ENABLED` for `oncall.enabled`. At the end it is asked to stop.

    It serves its metrics at free ports: another `run` may be on this machine.
    """
    given = {
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "PATHS__WAREHOUSE": str(settings.paths.warehouse),
        "PATHS__CHECKPOINTS": str(settings.paths.checkpoints),
        "METRICS__PORT": "0",
        "METRICS__HEALTH_PORT": "0",
    }
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.unlink(missing_ok=True)
    run = LiveRun(LOG, {f"BALANCEWATCH_{name}": value for name, value in (given | more).items()}, "run")
    run.start()
    try:
        yield run
    finally:
        run.stop()
