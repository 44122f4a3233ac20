"""A real Alertmanager for the tests: Debian's package, started by pid on free ports, its files in a folder given.

Everything is routed to one webhook, without waiting for company. Several replicas gossip with each other: they share
what was notified, and not the alerts.
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from streaming.kafka_io.embedded_kafka import free_port
from tests.support.freezing import end
from tests.support.rocketmq_server import wait_for

BINARY = "prometheus-alertmanager"
STOP_SECONDS = 10.0

CONFIG = """\
route:
  receiver: ours
  group_by: ['...']
  group_wait: 0s
  group_interval: 200ms
  repeat_interval: 4h
receivers:
  - name: ours
    webhook_configs:
      - url: {url}
        send_resolved: true
"""


class Alertmanager:
    """One replica. `url` is its root; `stop` ends it."""

    def __init__(
        self,
        folder: Path,
        webhook_url: str,
        gossip_port: int | None = None,
        peers: tuple[int, ...] = (),
        port: int | None = None,
    ) -> None:
        """Start it; returns once it is ready. `peers` are the gossip ports of the others. Without `port` a free one."""
        binary = shutil.which(BINARY)
        assert binary, f"there is no {BINARY} on the PATH; install the apt package {BINARY}"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "alertmanager.yml"
        config.write_text(CONFIG.format(url=webhook_url))
        port = port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "alertmanager.log"
        command = [
            binary,
            f"--config.file={config}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--cluster.listen-address={f'127.0.0.1:{gossip_port}' if gossip_port else ''}",
            *(f"--cluster.peer=127.0.0.1:{peer}" for peer in peers),
            "--cluster.gossip-interval=50ms",
            "--cluster.settle-timeout=5s",
            "--cluster.peer-timeout=2s",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=folder
            )
        try:
            wait_for(f"{BINARY} is ready; see {self._log}", self._is_ready)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def alerts(self) -> list[dict[str, Any]]:
        """What GET /api/v2/alerts lists: alerts that have not ended."""
        answer = httpx.get(f"{self.url}/api/v2/alerts", timeout=10.0, trust_env=False)
        assert answer.status_code == 200, answer.text
        listed: list[dict[str, Any]] = answer.json()
        return listed

    def wait_for_alerts(self, *incident_ids: str) -> list[dict[str, Any]]:
        """The listed alerts, once they are those of these incidents and no others."""
        wanted = sorted(incident_ids)
        found: list[dict[str, Any]] = []

        def is_so() -> bool:
            found[:] = self.alerts()
            return sorted(alert["annotations"]["incident_id"] for alert in found) == wanted

        wait_for(f"the alerts listed are those of {wanted}", is_so)
        return found

    def peers(self) -> int:
        """How many replicas it gossips with, itself among them."""
        status = httpx.get(f"{self.url}/api/v2/status", timeout=10.0, trust_env=False).json()
        return len(status["cluster"].get("peers") or [])

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=2.0, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """SIGTERM, then SIGKILL. Safe to call twice."""
        end(self._process, STOP_SECONDS)


@contextlib.contextmanager
def scratch_alertmanagers(webhook_url: str, replicas: int = 1) -> Iterator[list[Alertmanager]]:
    """Replicas that notify `webhook_url`, in a folder that is deleted with them. More than one gossip."""
    ports = tuple(free_port() for _ in range(replicas)) if replicas > 1 else (None,)
    started: list[Alertmanager] = []
    with tempfile.TemporaryDirectory(prefix="balancewatch-alertmanager-") as folder, contextlib.ExitStack() as stack:
        for number, port in enumerate(ports):
            others = tuple(other for other in ports if other and other != port)
            started.append(Alertmanager(Path(folder) / str(number), webhook_url, port, others))
            stack.callback(started[-1].stop)
        yield started
