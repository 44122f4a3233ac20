"""A leg on one machine: Kafka, `run`, the relay, a collector, three receivers, and the faults that hit them."""

import contextlib
import heapq
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx

from conf.settings import Settings
from schemas.events import CLOCKS, PULLS, ROUTES
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.kafka_io.publisher import Publisher
from streaming.kafka_io.topics import create_topics
from streaming.simulator.conditions import Conditions
from streaming.simulator.watched import CollectorView
from streaming.simulator.world import Event
from streaming.text.times import wall_ms
from tests.lab.chaos.full_disk import CannotMountError, small_disk
from tests.lab.score.truth import TrueWatch
from tests.lab.storm.checker import Episode, Fault, Storm
from tests.lab.storm.drawn import CLUSTERS, INTERVAL_MS, Deployment, Drawn, Plan, draw_cluster, episodes_of
from tests.lab.storm.power import cut_power, empty_commit
from tests.lab.storm.receivers import STYLES, Diary, Receiver
from tests.support.freezing import end
from tests.support.laboratory import say
from tests.support.s3_server import BUCKET, environment_of, faulty_proxy, s3_server
from tests.support.session_process import SessionProcess

RESTART_SECONDS = 1.0
"""The supervisor's pause, as systemd's RestartSec."""

HOOK = Path(__file__).with_name("hook")
"""A folder on the PYTHONPATH of every process under test."""

STOP_SECONDS = 60.0
START_SECONDS = 600.0
DISK_BYTES = 256 << 20
ROUTING_KEY = "0123456789abcdef0123456789abcdef"

CONFIG = """\
kafka.bootstrap_servers = "{servers}"
paths = {{ warehouse = "{warehouse}", checkpoints = "{checkpoints}" }}
canary.interval_seconds = 0
quality.every_batches = 0
metrics = {{ port = 0, relay_port = 0 }}
log.format = "json"

[oncall]
enabled = {is_inside}
resend_seconds = 10 # leases of 40 s, so that a lost renewal shows
backoff_max_seconds = 5
delivery_failed_after_seconds = 60
receivers = [
  {{ name = "webhook", type = "webhook", url = "{webhook}" }},
  {{ name = "pagerduty", type = "pagerduty", url = "{pagerduty}", routing_key_env = "STORM_KEY" }},
  {{ name = "alertmanager", type = "alertmanager", urls = ["{alertmanager}"] }},
]
routes = [
  {{ name = "all", match = {{ severity = "*" }}, receivers = ["webhook", "pagerduty", "alertmanager"] }},
  {{ name = "rest", receivers = ["webhook"] }},
]
"""


class Process(SessionProcess):
    """A command that is started again whenever it ends, as a supervisor does. `exits` are ends that no fault caused."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, *, is_fed: bool = False
    ) -> None:
        super().__init__(command, environment, log, is_fed=is_fed)
        self.name, self.exits = name, list[Fault]()
        self._lock = threading.RLock()
        self._downs = self._ended_ms = 0

    def watch(self) -> None:
        """Start it, unless it runs or a fault keeps it down."""
        with self._lock:
            if self._downs or self.is_alive():
                return
            if self.process is not None and not self._ended_ms:
                self._ended_ms = wall_ms()
                self.exits.append(Fault(f"exit {self.process.returncode}", self.name, self._ended_ms, self._ended_ms))
            if wall_ms() >= self._ended_ms + RESTART_SECONDS * 1000:
                self._ended_ms = 0
                self.start()

    def kill(self, *, only_python: bool = False) -> None:
        """SIGKILL. Returns when no process of the session lives; its JVM ends by itself if only Python is killed."""
        with self._lock:
            self._downs += 1
            if self.process is None:
                return
            if only_python and self.is_alive():
                self.process.kill()
            else:
                self.signal(signal.SIGKILL)
            self.process.wait()
            self.bury()

    def allow(self) -> None:
        """End what `kill` began: the process may start again."""
        with self._lock:
            self._downs -= 1
            self._ended_ms = self._ended_ms or 1
            self.watch()

    def stop(self) -> None:
        """SIGTERM; SIGKILL after STOP_SECONDS."""
        with self._lock:
            self._downs += 1
            if self.process is not None:
                self.signal(signal.SIGCONT)
                end(self.process, STOP_SECONDS)
                self.signal(signal.SIGKILL)
                self.close_input()


Fed = tuple[str, Event, int, int]
"""Topic, event, its time of publication in ms, and the feeder whose round it belongs to, by process id."""


class Feed(threading.Thread):
    """Plays the clusters in real time into the feeder's standard input. What no feeder takes is lost.

    A feeder that was started again has the memory of a new collector: its first complete round lists everything.
    """

    def __init__(self, watches: list[TrueWatch], feeder: Process, seconds: float) -> None:
        super().__init__(name="feed", daemon=True)
        self._watches, self._feeder, self._seconds = watches, feeder, seconds
        self.stop = threading.Event()

    def run(self) -> None:
        for topic, event, at_ms, pid in heapq.merge(*map(self._said, self._watches), key=lambda fed: fed[2]):
            if self.stop.wait(max(0.0, (at_ms - wall_ms()) / 1000)):
                return
            process = self._feeder.process
            if process is None or process.stdin is None or process.pid != pid:
                continue
            with contextlib.suppress(OSError, ValueError):  # it was killed
                _write_all(process.stdin.fileno(), (json.dumps([topic, event]) + "\n").encode())

    def _said(self, watch: TrueWatch) -> Iterator[Fed]:
        events = watch.simulation.events(int(self._seconds * 1000))
        routes: dict[str, Event] = {}
        is_over = False
        while not is_over:
            pid, is_over = self._pid(), True
            random_ = random.Random(pid)
            view = CollectorView(watch.simulation, watch.conditions, watch.suspects, random_)
            for topic, event, at_ms in view.watch(_with_routes(events, routes)):
                yield topic, event, at_ms, pid
                if topic == CLOCKS and self._pid() != pid:
                    is_over = False
                    break

    def _pid(self) -> int:
        return self._feeder.process.pid if self._feeder.process else 0


def _with_routes(events: Iterator[tuple[str, Event]], routes: dict[str, Event]) -> Iterator[tuple[str, Event]]:
    """Yield the routes that are known, then the events, and keep the newest routes."""
    yield from [(ROUTES, event) for event in routes.values()]
    for topic, event in events:
        if topic == ROUTES:
            routes[event["topic"]] = event
        yield topic, event


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


@dataclass
class Bucket:
    """Faults of the object store, drawn per request while active."""

    rng: random.Random
    active: dict[str, float] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def fault_of(self, method: str, path: str) -> str | None:
        for how, share in list(self.active.items()):
            if self.rng.random() < share and (how not in ("409", "412") or method == "PUT"):
                self.count[how] += 1
                return "cut" if how == "away" else how
        return None


class Stage:
    """All parts of one leg. `not_played` are faults that this machine does not permit, with the reason."""

    def __init__(self, deployment: Deployment, folder: Path, kafka: EmbeddedKafka) -> None:
        self.deployment, self.folder, self.kafka = deployment, folder, kafka
        self.rng = random.Random(f"{deployment.seed} stage")
        self.faults: list[Fault] = []
        self.not_played: dict[str, str] = {}
        self.damaged: list[str] = []
        self.bucket = Bucket(random.Random(f"{deployment.seed} bucket"))
        self.diary = Diary(folder / "arrivals.jsonl")
        self.receivers = {style: Receiver(style, self.diary, deployment.seed) for style in STYLES}
        self.disk = folder / "disk"
        self._broken: list[Exception] = []
        self._tracks = defaultdict[str, threading.Lock](threading.Lock)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Disk or bucket, configuration, processes; all ended afterwards."""
        with contextlib.ExitStack() as parts:
            try:
                parts.enter_context(small_disk(self.disk, DISK_BYTES))
            except CannotMountError as error:
                self.not_played["full_disk tables"] = str(error)
            environment = {
                "BALANCEWATCH_CONFIG": str(self.folder / "storm.toml"),
                "STORM_KEY": ROUTING_KEY,
                "STORM_SYNCED": str(self.folder / "synced.log"),
                "PYTHONPATH": os.pathsep.join([str(HOOK), os.environ.get("PYTHONPATH", "")]),
            }
            warehouse = str(self.disk / "warehouse")
            if self.deployment.tables == "bucket":
                address = parts.enter_context(s3_server(self.folder / "s3.log"))
                environment |= environment_of(parts.enter_context(faulty_proxy(address, self.bucket.fault_of)))
                warehouse = f"s3://{BUCKET}/{self.folder.name}"
            text = CONFIG.format(
                servers=self.kafka.bootstrap_servers,
                warehouse=warehouse,
                checkpoints=self.disk / "checkpoints",
                is_inside=str(not self.deployment.is_apart).lower(),
                **{name: receiver.url for name, receiver in self.receivers.items()},
            )
            (self.folder / "storm.toml").write_text(text)
            names = ["run", "relay"] if self.deployment.is_apart else ["run"]
            self.clocks = {name: self.folder / f"{name}.clock" for name in names}
            self.processes = {
                name: Process(
                    name,
                    [sys.executable, "-m", "streaming.cli", name],
                    environment | {"STORM_CLOCK": str(self.clocks[name])},
                    self.folder / f"{name}.log",
                )
                for name in names
            }
            rounds = [sys.executable, "-m", "tests.lab.storm.feeder", self.kafka.bootstrap_servers]
            self.feeder = Process(
                "collector", [*rounds, str(self.folder / "rounds.jsonl")], {}, self.folder / "feeder.log", is_fed=True
            )
            for process in self.all:
                parts.callback(process.stop)
            for receiver in self.receivers.values():
                parts.callback(receiver.die)
            yield

    @property
    def all(self) -> list[Process]:
        return [self.feeder, *self.processes.values()]

    def wait_until_ready(self, stop: threading.Event) -> float:
        """Start all processes; return the seconds until `run` had written a first batch. Raises TimeoutError."""
        kafka = Settings.load(kafka={"bootstrap_servers": self.kafka.bootstrap_servers, "options": {}}).kafka
        create_topics(kafka)
        with Publisher(kafka) as publisher:
            publisher.publish_raw(PULLS, b"storm", b"no JSON")
            publisher.flush()
        began = time.monotonic()
        log = self.folder / "run.log"
        while not stop.is_set():
            for process in self.all:
                process.watch()
            urls = [json.loads(line)["url"] for line in log.read_text().splitlines() if "health server started" in line]
            with contextlib.suppress(httpx.TransportError):
                if urls and httpx.get(urls[-1].replace("healthz", "readyz"), trust_env=False).is_success:
                    break
            if time.monotonic() > began + START_SECONDS:
                raise TimeoutError(f"run is not ready after {START_SECONDS:.0f} s; see {log}")
            stop.wait(0.5)
        return time.monotonic() - began

    def play(self, plan: Plan, stop: threading.Event) -> Storm:
        """Play the plan in real time; return what the checker needs to know. Raises what a fault raised."""
        start_ms = wall_ms()
        clusters = [draw_cluster(plan, number) for number in range(CLUSTERS)]
        conditions = Conditions("collector", INTERVAL_MS)
        watches = [TrueWatch(scenario, 1, start_ms, conditions) for scenario in clusters]
        feed = Feed(watches, self.feeder, plan.seconds)
        threads: list[threading.Thread] = [feed]
        feed.start()
        waiting = list(plan.faults)
        said_at = 0.0
        while not stop.is_set() and (now := (wall_ms() - start_ms) / 1000) < plan.seconds:
            while waiting and waiting[0].at <= now:
                thread = threading.Thread(target=self._hit, args=(waiting.pop(0),), daemon=True)
                thread.start()
                threads.append(thread)
            for process in self.all:
                process.watch()
            if self._broken:
                raise self._broken[0]
            if now >= said_at:
                say(f"{now:.0f} of {plan.seconds:.0f} s, {len(self.faults)} faults, {self.diary.count} arrivals")
                said_at = now + 30
            stop.wait(0.2)
        feed.stop.set()
        end_ms = wall_ms()
        for thread in threads:
            thread.join(STOP_SECONDS)
        episodes = [episode for watch in watches for episode in episodes_of(watch)]
        return self._storm(start_ms, end_ms, round(plan.bound * 1000), episodes)

    def _storm(self, start_ms: int, end_ms: int, bound_ms: int, episodes: list[Episode]) -> Storm:
        rounds: dict[str, list[list[int]]] = {}
        path = self.folder / "rounds.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            cluster, event_ms, acked_ms = json.loads(line)
            rounds.setdefault(cluster, []).append([event_ms, acked_ms])
        exits = [fault for process in self.all for fault in process.exits if fault.start_ms < end_ms]
        storm = Storm(start_ms, end_ms, bound_ms, list(STYLES), episodes, self.faults, exits, rounds)
        (self.folder / "storm.json").write_text(json.dumps(asdict(storm), indent=1))
        return storm

    def _hit(self, drawn: Drawn) -> None:
        """Play one fault from its start to its healing, once the one before it in its track has healed."""
        name, until = f"{drawn.kind} {drawn.target}", time.monotonic() + drawn.lasts
        with self._tracks[drawn.track]:
            if name in self.not_played or time.monotonic() > until:
                return
            begin_ms = wall_ms()
            say(f"{name}, {until - time.monotonic():.0f} s")
            try:
                with self._fault(drawn):
                    time.sleep(max(0.0, until - time.monotonic()))
            except Exception as error:  # raised by `play`
                self._broken.append(error)
            self.faults.append(Fault(drawn.kind, drawn.target, begin_ms, wall_ms()))

    @contextlib.contextmanager
    def _fault(self, drawn: Drawn) -> Iterator[None]:
        """Begin the fault, and heal it at the end."""
        kind, target = drawn.kind, drawn.target
        if target == "kafka":
            yield from self._hit_kafka(drawn)
        elif target in self.receivers:
            yield from self._hit_receiver(self.receivers[target], kind)
        elif kind == "full_disk":
            yield from self._fill_disk()
        elif target == "tables":
            self.bucket.active[kind.removeprefix("bucket_")] = 1.0 if kind == "bucket_away" else 0.2 + 0.5 * drawn.more
            yield
            self.bucket.active.pop(kind.removeprefix("bucket_"), None)
        elif target == "machine":
            yield from self._hit_machine(kind)
        elif kind == "clock_step":
            ahead = (3_600 if drawn.more > 0.5 else 90) * (1 if int(drawn.more * 100) % 2 else -1)
            self.clocks[target].write_text(str(ahead))
            yield
            self.clocks[target].write_text("0")
        else:
            process = self.feeder if target == "collector" else self.processes[target]
            if kind == "stop":
                process.signal(signal.SIGSTOP)
                yield
                process.signal(signal.SIGCONT)
            else:
                process.kill(only_python=kind == "kill_python")
                yield
                process.allow()

    def _hit_kafka(self, drawn: Drawn) -> Iterator[None]:
        """Killed, frozen, or stopped in order; the port and the data stay."""
        kafka = self.kafka
        if drawn.kind == "stop":
            os.kill(kafka.pid, signal.SIGSTOP)
            yield
            os.kill(kafka.pid, signal.SIGCONT)
            return
        if drawn.kind == "kill":
            os.kill(kafka.pid, signal.SIGKILL)
        kafka.stop()
        yield
        self.kafka = EmbeddedKafka(Settings.load().paths.jars, kafka.data_dir, kafka.port)

    def _hit_receiver(self, receiver: Receiver, kind: str) -> Iterator[None]:
        if kind == "receiver_dies":
            receiver.die()
        receiver.mode = kind.removeprefix("receiver_")
        yield
        receiver.mode = "well"
        receiver.rise()

    def _fill_disk(self) -> Iterator[None]:
        ballast = self.disk / "ballast"
        for size in (65_536, 512):
            with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
                while True:
                    file.write(b"x" * size)
        yield
        ballast.unlink(missing_ok=True)

    def _hit_machine(self, kind: str) -> Iterator[None]:
        """All processes of balancewatch die at once; then the disk loses what it may lose."""
        for process in self.processes.values():
            process.kill()
        if kind == "power_cut":
            lost = cut_power([self.disk / "warehouse", self.disk / "checkpoints"], self.folder / "synced.log", self.rng)
        else:
            emptied = empty_commit(self.disk / "warehouse", self.rng)
            lost = [f"emptied {emptied}"] if emptied else []
        self.damaged += lost
        (self.folder / "damaged.log").write_text("\n".join(self.damaged))
        say(f"{kind}: {len(lost)} files damaged")
        yield
        for process in self.processes.values():
            process.allow()
