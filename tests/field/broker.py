"""A broker of the field: master or slave, on one port all its life, started again with the data it had."""

import time
from collections.abc import Mapping
from pathlib import Path

from tests.rocketmq_broker import broker_lines, start_broker
from tests.rocketmq_server import Server, broker_port


class Broker:
    """`name` is the field's ("broker-a-slave"), `broker_name` is RocketMQ's, which master and slave share."""

    def __init__(
        self, jars: Path, folder: Path, name: str, broker_name: str, broker_id: int, settings: Mapping[str, object]
    ) -> None:
        self.name, self.broker_name, self.broker_id = name, broker_name, broker_id
        self.port = broker_port()
        self.address = f"127.0.0.1:{self.port}"
        self._jars, self._folder, self._settings = jars, folder, settings
        self._server: Server | None = None

    @property
    def is_master(self) -> bool:
        return self.broker_id == 0

    @property
    def server(self) -> Server:
        """Its newest process."""
        assert self._server, f"{self.name} was not started"
        return self._server

    def is_alive(self) -> bool:
        """Whether its process runs, frozen or not."""
        return self._server is not None and self._server.is_alive()

    def start(self, name_server: str) -> None:
        """Start its process, unless it runs; it neither listens nor is registered yet."""
        if self.is_alive():
            return
        store = self._folder / "store" / self.name
        lines = broker_lines(self.broker_name, self.port, name_server, store, self.broker_id)
        folder = self._folder / f"{self.name}-{time.monotonic_ns()}"
        self._server = start_broker(self._jars, folder, {**lines, **self._settings})
