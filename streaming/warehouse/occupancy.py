"""Exclusive use of tables, checkpoints and demo folders by one `run`, one relay and one demo.

Folders have file locks, object stores leases (streaming/warehouse/lease.py). Shared folders have both, because their
locks may not reach other machines. After a crash there is nothing to clean up: the kernel releases locks, and leases
expire.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

import structlog

from conf.location import Location, is_store
from conf.settings import Settings
from streaming.system.known_error import BalancewatchError
from streaming.system.private_folder import make_checkpoints, make_private
from streaming.warehouse.folder_place import FolderPlace
from streaming.warehouse.lease import Lease, LeaseHeldError
from streaming.warehouse.lease_place import ObjectPlace, described

log = structlog.get_logger()

Part = Literal["run", "relay", "demo"]

NOTE_SECONDS = 0.2
"""Time within which a new holder writes its name beside the lock."""

ADVICE: Mapping[Part, str] = {
    "run": "stop it first, or use other folders",
    "relay": "only one process may send notifications: stop it first, or set oncall.enabled = false for `run`",
    "demo": "stop it first, or use another folder",
}


class OccupiedError(BalancewatchError):
    """Another process uses the folder. The message names it and says what to do."""


def work_folders(settings: Settings) -> dict[str, Location]:
    """Return the folders for exclusive use, created with private permissions; buckets are left as they are."""
    warehouse = settings.paths.warehouse
    return {
        "paths.warehouse": str(warehouse)
        if is_store(warehouse)
        else make_private(Path(warehouse).expanduser().resolve()),
        "paths.checkpoints": make_checkpoints(settings),
    }


class Wish(NamedTuple):
    """A request for exclusive use as `part` of these folders, by setting; `command` is shown to other processes."""

    part: Part
    command: str
    folders: Mapping[str, Location]


@contextlib.contextmanager
def occupying(part: Part, command: str, folders: Mapping[str, Location]) -> Iterator[None]:
    """Hold one wish; see `occupying_all`."""
    with occupying_all([Wish(part, command, folders)]):
        yield


@contextlib.contextmanager
def occupying_all(wishes: Sequence[Wish]) -> Iterator[None]:
    """Hold all wishes or none. Raises OccupiedError for the first one that another process holds.

    They are taken in order, so one of two concurrent processes gets all; and watched in parallel before, so the leases
    of a dead process expire together.
    """
    places: dict[tuple[Part, str], _Hold] = {}
    for wish in wishes:
        for key, folder in wish.folders.items():
            place = str(folder) if is_store(folder) else str(Path(folder).expanduser().resolve())
            places.setdefault((wish.part, place), _Hold(wish, key, place))
    holds = list(places.values())
    with contextlib.ExitStack() as held:
        for hold in holds:
            held.callback(hold.let_go)
            hold.lock()
        with ThreadPoolExecutor(max(1, len(holds))) as threads:
            watched = [threads.submit(hold.watch) for hold in holds]
        for one in watched:
            one.result()
        for hold in holds:
            hold.take()
        yield
    for hold in holds:
        hold.refuse_lost()


class _Hold:
    """A lock or lease. If another process takes it over after a long suspension, this process gets SIGTERM."""

    def __init__(self, wish: Wish, key: str, place: str) -> None:
        self._part, self._command, self._key, self._place = wish.part, wish.command, key, place
        self._file: FolderPlace | None = None
        self._lease: Lease | None = None
        self._lost: str | None = None
        self._is_taken = False

    def lock(self) -> None:
        """Take the file lock of a folder."""
        name = f"{self._part}.lock"
        if is_store(self._place):
            self._lease = Lease(ObjectPlace(self._place, name), name, self._command, self._lose)
            return
        folder = Path(self._place)
        folder.mkdir(parents=True, exist_ok=True)
        self._file = file = FolderPlace(folder / name)
        if not file.lock():
            raise self._occupied(_holder_of(file))
        if file.is_writable:
            self._lease = Lease(file, name, self._command, self._lose)

    def watch(self) -> None:
        self._if_free(Lease.watch)

    def take(self) -> None:
        self._if_free(Lease.take)
        self._is_taken = True

    def _if_free(self, step: Callable[[Lease], None]) -> None:
        try:
            if self._lease is not None:
                step(self._lease)
        except LeaseHeldError as holder:
            raise self._occupied(str(holder)) from None

    def let_go(self) -> None:
        if self._lease is not None and self._is_taken:
            self._lease.release()
        if self._file is not None:
            self._file.close()

    def refuse_lost(self) -> None:
        if self._lost is not None:
            raise OccupiedError(
                f"{self._key} = {self._place!r}: in use by {self._lost}, which took over while this process was cut off"
            )

    def _lose(self, holder: str) -> None:
        self._lost = holder
        log.error("lease lost, stopping", key=self._key, holder=holder)
        os.kill(os.getpid(), signal.SIGTERM)

    def _occupied(self, holder: str) -> OccupiedError:
        return OccupiedError(f"{self._key} = {self._place!r}: in use by {holder}; {ADVICE[self._part]}")


def _holder_of(file: FolderPlace) -> str:
    """Return the process that is noted as the holder."""
    until = time.monotonic() + NOTE_SECONDS
    while True:
        seen = file.look()
        if seen is not None and "pid" in seen.words:
            return described(seen.words)
        if time.monotonic() > until:
            return "another process"
        time.sleep(NOTE_SECONDS / 10)
