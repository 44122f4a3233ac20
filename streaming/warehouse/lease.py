"""One holder of a name where no kernel may know who lives: words that their holder writes anew.

Who finds them watches them: words that change have a holder who lives; those that stay as they are for LEASE_SECONDS
are taken over. No clock of two machines is compared. Each write is held against the one before, so that two who take
them over at once are told apart.
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
    """Somebody else has it, and lives; the message says who."""


class Lease:
    """`take` it, `release` it. In between a thread renews it, and calls `on_lost` once where another has taken it.

    Who takes several lets each `watch` first, side by side: what is seen to be over then is taken without a wait.
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
        """Returns when it may be had, after LEASE_SECONDS where its holder died elsewhere. Raises LeaseHeldError."""
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
        """Returns when it is ours. Raises LeaseHeldError."""
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
        """It stays, free for whoever comes."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(2 * PATIENCE.total_seconds())
        try:
            self._write({"free": True}, Seen(self._tag, {}))
        except (BaseError, OSError) as error:
            log.warning("lease not released", name=self._name, reason=type(error).__name__)

    def _has_settled(self) -> bool:
        """Whether it is still ours once each who wrote at the same time has written."""
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
        """False where it is no longer as it was seen."""
        tag = self._place.write(words, over)
        if tag is None:
            return False
        self._tag = tag
        return True
