"""One scenario on the stage: its topics, groups and clients, its troubles at their times, and its record."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tests.lab.field.client import FieldClient, FieldClients
from tests.lab.field.client_spec import ClientSpec
from tests.lab.field.others import ask_others
from tests.lab.field.played import Done, Played
from tests.lab.field.scenario import Scenario, Trouble, load_scenario
from tests.lab.field.stage import FieldStage, StoppedError
from tests.lab.field.troubles import make_trouble, start_supervised

STARTS = threading.Semaphore(2)
"""JVMs that start at a time, of all plays: more of them only wait for the cores."""


class Play:
    """A scenario with a seed: clients by the scenario's own names.

    `set_up` starts everything, `play` makes the troubles from a moment that plays side by side share, `tear_down` ends
    the clients and takes topics and groups away, so that nothing is said of them afterwards.
    """

    def __init__(self, stage: FieldStage, scenario_name: str, seed: int) -> None:
        self.stage, self.scenario_name, self.seed = stage, scenario_name, seed
        self.scenario: Scenario = load_scenario(scenario_name)
        self.name = f"{scenario_name}_{_letters(seed)}"
        self.suffix = f"_{self.name}"
        self.folder: Path = stage.folder / "plays" / self.name
        self.folder.mkdir(parents=True)
        self.cluster, self.links, self.collector = stage.cluster, stage.links, stage.collector
        self._clients = FieldClients(self.folder, stage.class_paths, stage.clocks, stage.bootstrap_servers)

    @property
    def clients(self) -> dict[str, FieldClient]:
        return self._clients.clients

    def link_name(self, client: str) -> str:
        """A client's name among all links."""
        return f"{self.name}.{client}"

    def set_up(self) -> None:
        """Topics, groups, then every client that runs from the start."""
        for topic in self.scenario.topics:
            self.cluster.create_topic(topic.topic + self.suffix, topic.queues, perm=topic.perm, brokers=topic.brokers)
        for group in self.scenario.groups:
            self.cluster.create_group(group.group + self.suffix)
            for topic, address in product(self.scenario.topics if group.is_pop else (), self.cluster.addresses()):
                self.cluster.operator.set_pop(address, topic.topic + self.suffix, group.group + self.suffix)
        for client in self.scenario.clients:
            spec = client.in_play(self.suffix)
            link = self.link_name(client.name)
            self._clients.add(spec, self.links.proxy_of(link) if spec.is_grpc else self.links.name_server_of(link))
        running = [client for client in self.scenario.clients if client.running]
        with ThreadPoolExecutor(len(running)) as threads:
            list(threads.map(self._start, running))

    def play(self, start_s: float) -> Played:
        """Make every trouble at its time, ask RocketMQ's tools meanwhile, and keep the record."""
        shift_s, factor = self.scenario.shift(self.seed), self.stage.clocks.factor
        done: list[Done] = []
        with ThreadPoolExecutor(1, thread_name_prefix=f"{self.name}-others") as thread:
            asked = thread.submit(self._ask_others, start_s, shift_s)
            try:
                for trouble in sorted(self.scenario.troubles, key=lambda one: one.at):
                    self.stage.wait_until(start_s + (shift_s + trouble.at) / factor)
                    done.append(self._make(trouble))
                self.stage.wait_until(start_s + self.scenario.seconds / factor)
            except StoppedError:
                if not self.scenario.is_quiet:  # of a quiet one each minute counts
                    raise
            asked.result()
        played = Played(
            self.scenario_name,
            self.seed,
            self.suffix,
            shift_s,
            int(start_s * 1000),
            int(time.time() * 1000),
            tuple(done),
            factor,
        )
        played.write(self.folder)
        return played

    def tear_down(self) -> None:
        """Clients end without a word, then their groups and topics are deleted."""
        self._clients.close()
        if self.stage.stop.is_set():
            return
        for group in sorted(self.scenario.group_names):
            self.cluster.delete_group(group + self.suffix)
        for topic in self.scenario.topics:
            self.cluster.delete_topic(topic.topic + self.suffix)

    def close(self) -> None:
        """End every client, whatever came before."""
        self._clients.close()

    def _start(self, client: ClientSpec) -> None:
        with STARTS:
            if not self.stage.stop.is_set():
                start_supervised(self, client.name)

    def _make(self, trouble: Trouble) -> Done:
        start_ms = int(time.time() * 1000)
        make_trouble(self, trouble.do, **trouble.arguments(self.suffix))
        return Done(trouble.at, trouble.do, start_ms, int(time.time() * 1000))

    def _ask_others(self, start_s: float, shift_s: float) -> None:
        """mqadmin takes seconds a call."""
        at = self.scenario.asks_others_at
        if at is not None:
            self.stage.wait_until(start_s + (shift_s + at) / self.stage.clocks.factor)
            groups = sorted(group + self.suffix for group in self.scenario.group_names)
            ask_others(self.cluster.operator.mqadmin, groups, self.folder)


def _letters(seed: int) -> str:
    """A seed in letters: a name that ends with a number looks like one of a family of short-lived groups."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(seed))
