"""A lease for places without reliable file locks: a record that its holder rewrites.

Another process watches the record: a change means that the holder lives; without a change for LEASE_SECONDS it takes
over. Clocks of machines are not compared. Each write is conditional on the one before, so only one of two concurrent
takeovers succeeds.
"""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from obstore.exceptions import BaseError

from streaming.system.known_error import BalancewatchError
from streaming.warehouse.lease_place import PATIENCE, LeasePlace, Seen, described, who

RENEW_SECONDS = 5.0
LEASE_SECONDS = 30.0
LOOK_SECONDS = 0.5

log = structlog.get_logger()


class LeaseHeldError(BalancewatchError):
    """A live process holds the lease; the message names it."""


class Lease:
    """A lease to `take` and `release`. A thread renews it, and calls `on_lost` once if another process has taken it.

    To take several, `watch` each first, in parallel: expired ones are then taken without a wait.
    """

    def __init__(self, place: LeasePlace, name: str, command: str, on_lost: Callable[[str], None]) -> None:
        self._place, self._name, self._on_lost = place, name, on_lost
        self._words = {**who(), "command": command, "id": str(uuid.uuid4())}
        self._tag: str | None = None
        self._turn = 0
        self._watched: tuple[str | None, float] | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease-{name}", daemon=True)

    def watch(self) -> None:
        """Return when the lease is free, after LEASE_SECONDS if its holder died elsewhere. Raises LeaseHeldError."""
        seen, since = self._place.look(), time.monotonic()
        if seen is None or self._place.is_over(seen.words):
            return
        log.info("lease held, waiting for its expiry", holder=described(seen.words), name=self._name)
        self._watched = (seen.tag, since)
        while time.monotonic() - since < LEASE_SECONDS:
            time.sleep(LOOK_SECONDS)
            again = self._place.look()
            if again is None or self._place.is_over(again.words):
                return
            if again.tag != seen.tag:
                raise LeaseHeldError(described(again.words))

    def take(self) -> None:
        """Take the lease. Raises LeaseHeldError."""
        if self._watched is None:
            self.watch()
        seen, since = self._place.look(), time.monotonic()
        if self._watched is not None and seen is not None and seen.tag == self._watched[0]:
            since = self._watched[1]
        while True:
            is_free = seen is None or self._place.is_over(seen.words) or time.monotonic() - since >= LEASE_SECONDS
            if is_free and self._write(self._turned(), seen) and self._has_settled():
                break
            time.sleep(0 if is_free else LOOK_SECONDS)
            before, seen = seen, self._place.look()
            if seen is not None and seen.words.get("id") == self._words["id"]:
                self._tag = seen.tag  # ours: its answer was lost
                break
            if seen is None or before is None or seen.tag != before.tag:
                if seen is not None and not self._place.is_over(seen.words):
                    raise LeaseHeldError(described(seen.words))
                since = time.monotonic()
        self._thread.start()

    def release(self) -> None:
        """Mark the lease as free."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(2 * PATIENCE.total_seconds())
        try:
            self._write({"free": True}, Seen(self._tag, {}))
        except (BaseError, OSError) as error:
            log.warning("lease not released", name=self._name, reason=type(error).__name__)

    def _has_settled(self) -> bool:
        """Return whether this process holds the lease after all concurrent writes have finished."""
        if self._place.settle_seconds:
            time.sleep(self._place.settle_seconds)
            seen = self._place.look()
            return seen is not None and seen.words.get("id") == self._words["id"]
        return True

    def _keep(self) -> None:
        while not self._end.wait(RENEW_SECONDS):
            try:
                if self._place.is_turned and self._write(self._turned(), Seen(self._tag, {})):
                    continue
                seen = self._place.look()
            except (BaseError, OSError) as error:
                log.warning("lease not renewed", name=self._name, reason=type(error).__name__)
                continue
            if seen is not None and seen.words.get("id") == self._words["id"]:
                self._tag = seen.tag  # ours: its answer was lost
                continue
            if seen is None and not self._place.is_turned:
                continue  # somebody deleted the file; the next who comes writes one
            self._on_lost("another process" if seen is None else described(seen.words))
            return

    def _turned(self) -> dict[str, Any]:
        self._turn += 1
        return {**self._words, "turn": self._turn}

    def _write(self, words: dict[str, Any], over: Seen | None) -> bool:
        """Return False if the record changed since `seen`."""
        tag = self._place.write(words, over)
        if tag is None:
            return False
        self._tag = tag
        return True
