"""A client of a real RocketMQ, of any kind and release, that writes down what it holds itself."""

import json
import threading
from dataclasses import asdict
from pathlib import Path

from tests.field.class_paths import ClassPaths
from tests.field.client_process import ClientProcess
from tests.field.client_spec import ClientSpec
from tests.rocketmq_clocks import Clocks

START_SECONDS = 120.0
COMMAND_SECONDS = 60.0


class FieldClient:
    """One client. `start` may follow `stop` and `process.kill`: the same client is there again, its log continues.

    FOLDER/NAME.jsonl is its truth: a line a second, by the machine's clock. A frozen or dead client writes nothing.
    """

    def __init__(
        self,
        spec: ClientSpec,
        name_server: str,
        folder: Path,
        clocks: Clocks,
        process: ClientProcess,
        bootstrap_servers: str,
    ) -> None:
        """`name_server` is a proxy's address for gRPC, `bootstrap_servers` the Kafka of one that is `hooked`."""
        self.spec, self.name_server, self.process = spec, name_server, process
        self.truth_log = folder / f"{spec.name}.jsonl"
        self._spec_file = folder / f"{spec.name}.spec.json"
        self._clocks, self._bootstrap_servers = clocks, bootstrap_servers
        self.client_id = ""

    @property
    def name(self) -> str:
        return self.spec.name

    def start(self) -> None:
        """Return when the client has started; it has not rebalanced yet. Raises ClientError."""
        spec = {
            **asdict(self.spec),
            "name_server": self.name_server,
            "truth_log": str(self.truth_log),
            "bootstrap_servers": self._bootstrap_servers,
            "heartbeat_ms": self._clocks.heartbeat_ms,
            "route_poll_ms": self._clocks.route_poll_ms,
            "persist_ms": self._clocks.persist_ms,
        }
        self._spec_file.write_text(json.dumps(spec))
        self.process.launch()
        self.client_id = self.process.ask(self.name, f"start {self._spec_file}", START_SECONDS)

    def command(self, line: str) -> None:
        """Return when the client has done it. Raises ClientError with what the client says.

        hang | unhang        its listener, or its sending, blocks
        consume_ms N         its listener takes N ms a message from now on
        rate_per_s N         of a producer
        suspend | resume     of a consumer: pulls no more
        gc SECONDS           the whole JVM stops for so long: as brokers see a long GC, by SIGSTOP; returns at once
        """
        verb, _, arguments = line.partition(" ")
        if verb == "gc":
            self.process.freeze()
            threading.Timer(float(arguments), self.process.thaw).start()
        else:
            self.process.ask(self.name, line, COMMAND_SECONDS)

    def stop(self) -> None:
        """A clean shutdown: UNREGISTER_CLIENT to every broker. Its JVM ends when nobody else lives in it."""
        self.process.ask(self.name, "stop", COMMAND_SECONDS)
        self.process.end_if_empty()


class FieldClients:
    """Clients by name, those of one `process` in one JVM: what a stage makes them with."""

    def __init__(self, folder: Path, class_paths: ClassPaths, clocks: Clocks, bootstrap_servers: str = "") -> None:
        self._folder, self._class_paths, self._clocks = folder, class_paths, clocks
        self._bootstrap_servers = bootstrap_servers
        self._shared: dict[str, ClientProcess] = {}
        self.clients: dict[str, FieldClient] = {}

    def add(self, spec: ClientSpec, name_server: str) -> FieldClient:
        """The client, not started yet."""
        process = self._shared.get(spec.process)
        if process is None:
            process = ClientProcess(spec, self._folder, self._class_paths, self._clocks)
        if spec.process:
            process.check_fits(spec)
            self._shared[spec.process] = process
        client = FieldClient(spec, name_server, self._folder, self._clocks, process, self._bootstrap_servers)
        self.clients[spec.name] = client
        return client

    def close(self) -> None:
        """End every JVM."""
        for client in self.clients.values():
            client.process.kill()
