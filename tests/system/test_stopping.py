"""SIGTERM as a service manager sends it, to every process of a command at once: each ends with 0, soon, in plain words.

To the process group is what a shell or a supervisor does; to each process, whatever its group or session, is what
systemd does.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.service import relay_command
from streaming.service.service import Service
from streaming.system.stopping import StoppedError, is_end_asked, stop_on_signals
from tests.board.tables import alert, write
from tests.conftest import settings_for
from tests.service.test_run_process import environment_for
from tests.support.offenders import assert_none
from tests.support.service_process import ServiceProcess
from tests.support.tiers import in_proof
from tests.support.twins_log import Log, publish

END_SECONDS = 120.0

Signal = Callable[[int], None]


def to_the_group(pid: int) -> None:
    os.killpg(pid, signal.SIGTERM)


def to_each(pid: int) -> None:
    """The children first: what they do then, the command must understand."""
    for one in [*reversed(descendants(pid)), pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGTERM)


def descendants(pid: int) -> list[int]:
    """Children before grandchildren."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        left = [child for one in left for child in children.get(one, ())]
        found += left
    return found


class Command(ServiceProcess):
    """A `balancewatch` in a process group of its own; what it prints is in a file."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str, through: Sequence[str] = ()) -> None:
        super().__init__(folder / "printed.log", environment, *arguments, through=through)
        self.start()

    def printed(self) -> str:
        return self.log.read_text()[-4_000:]

    def end(self, send: Signal) -> None:
        """It ends with 0 within END_SECONDS, says nothing of a traceback, and leaves no process."""
        assert self.process
        others = descendants(self.pid)
        send(self.pid)
        assert self.process.wait(END_SECONDS) == 0, self.printed()
        assert "Traceback" not in self.log.read_text()
        assert "error: " not in self.log.read_text()
        deadline = time.monotonic() + END_SECONDS
        while any(Path(f"/proc/{one}").exists() for one in others):
            assert time.monotonic() < deadline, "a child outlives its command"
            time.sleep(0.05)


@contextlib.contextmanager
def command(
    folder: Path, environment: dict[str, str], *arguments: str, through: Sequence[str] = ()
) -> Iterator[Command]:
    started = Command(folder, environment, *arguments, through=through)
    try:
        yield started
    finally:
        for one in descendants(started.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        started.kill()


each_way = pytest.mark.parametrize("send", [to_each, *in_proof([to_the_group])])
"""What reaches every process reaches the group, too; the group alone is told in `make proof`."""


@pytest.mark.proof
@pytest.mark.real
@pytest.mark.spark
@pytest.mark.parametrize(("send", "starts"), [(to_each, 1), (to_the_group, 2)])
def test_run_ends_and_its_next_start_goes_on(
    empty_kafka: EmbeddedKafka, log: Log, tmp_path: Path, send: Signal, starts: int
) -> None:
    """It writes to Kafka, too: canaries, and clock events. `queries/test_stream.py` holds that its state is kept.

    `conf/test_docker_run.py` sends it SIGTERM in `make test`.
    """
    settings = settings_for(empty_kafka, tmp_path)
    publish(settings, log)
    environment = environment_for(settings, QUERIES__MAX_OFFSETS_PER_TRIGGER="150")
    commits = settings.paths.checkpoints / "balance" / "commits"
    for _ in range(starts):
        done = len(list(commits.glob("[0-9]*")))
        with command(tmp_path, environment, "run") as run:
            run.wait_until((commits / str(done + 1)).exists)
            run.end(send)


@pytest.mark.proof
@pytest.mark.real
@pytest.mark.spark
@pytest.mark.parametrize("after_seconds", [6.0, 1.5])
def test_run_ends_while_it_starts(empty_kafka: EmbeddedKafka, tmp_path: Path, after_seconds: float) -> None:
    settings = settings_for(empty_kafka, tmp_path)
    with command(tmp_path, environment_for(settings), "run") as run:
        time.sleep(after_seconds)
        run.end(to_each)


def has_children(command: Command) -> bool:
    return bool(descendants(command.pid))


def says(words: str) -> Callable[[Command], bool]:
    return lambda command: words in command.log.read_text()


UNREACHABLE = ["--bootstrap-servers", "127.0.0.1:1"]
COLLECT = ["collect", "--name-server", "127.0.0.1:1"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("arguments", "is_up"),
    [
        pytest.param(["kafka", "--data-dir", "{folder}/kafka"], says("bootstrap_servers="), id="kafka"),
        pytest.param(
            ["kafka", "--data-dir", "{folder}/kafka"], has_children, id="kafka while it starts", marks=pytest.mark.proof
        ),
        pytest.param(
            [*COLLECT, *UNREACHABLE], says("collector started"), id="collect, Kafka away", marks=pytest.mark.proof
        ),
        pytest.param(["board", "--port", "0"], says("http://127.0.0.1:"), id="the board"),
        pytest.param(["run", *UNREACHABLE], says("health server started"), id="run, Kafka away"),
        pytest.param(["relay"], says("alert firing"), id="relay"),
    ],
)
@each_way
def test_a_command_ends(tmp_path: Path, send: Signal, arguments: list[str], is_up: Callable[[Command], bool]) -> None:
    """Kafka's client waits half a minute, which is as long as some supervisors do. The relay starts no JVM."""
    if arguments[0] in ("board", "relay"):
        write(tmp_path / "w", {"alerts": [alert("one")]})
    paths = {"WAREHOUSE": tmp_path / "w", "CHECKPOINTS": tmp_path / "c"}
    environment = os.environ | {f"BALANCEWATCH_PATHS__{name}": str(path) for name, path in paths.items()}
    with command(tmp_path, environment, *(one.format(folder=tmp_path) for one in arguments)) as started:
        started.wait_until(lambda: is_up(started))
        assert arguments != ["relay"] or not has_children(started)
        began = time.monotonic()
        started.end(send)
        assert arguments[0] != "run" or time.monotonic() - began < 25


@pytest.mark.proof
@pytest.mark.real
@pytest.mark.spark
@pytest.mark.parametrize("send", [to_each, to_the_group])
def test_collect_ends_with_its_jvm_at_work(kafka: EmbeddedKafka, tmp_path: Path, send: Signal) -> None:
    flags = [*COLLECT, "--bootstrap-servers", kafka.bootstrap_servers]
    with command(tmp_path, dict(os.environ), *flags) as collect:
        collect.wait_until(lambda: has_children(collect))
        time.sleep(3)
        collect.end(send)


def test_the_same_wish_reported_twice_is_one_wish_and_what_failed_just_before_it_is_its_consequence() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        stop = stop_on_signals()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert is_end_asked(stop)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set()
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


def test_no_jvm_is_started_once_all_is_asked_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start for as long as it takes, and hear nothing of a SIGTERM that came before it."""
    started: list[str] = []
    for place in ("streaming.service.service.start_spark", "streaming.spark.session.start_spark"):
        monkeypatch.setattr(place, lambda *_, place=place: started.append(place))
    monkeypatch.setattr("streaming.service.service.create_topics", lambda _: None)
    settings = Settings.load(paths={"warehouse": tmp_path / "w", "checkpoints": tmp_path / "c"})
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        Service(settings, stop=stop)
    relay_command._run(settings, None, stop)
    assert_none(started)
