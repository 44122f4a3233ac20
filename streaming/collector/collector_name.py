"""Which collector this is: a name that stays over restarts and that no other collector of the cluster has."""

import contextlib
import hashlib
import socket
import sys
import uuid
from pathlib import Path

from conf.settings import Collector

MOST_ON_A_HOST = 100
MAX_LENGTH = 200

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NETWORK = Path("/proc/self/ns/net")


class CollectorName:
    """`collector.id`, or host and NameServer, with "#2", "#3", ... for a second and a third one on the host.

    Held by a socket in Linux' abstract namespace, which is the host's (a container's its own) and leaves nothing
    behind, however the process dies. So whoever has the same `holder` as another is the one that came after its death:
    `holder` is that place on that boot of that machine, and random where there is none.
    """

    def __init__(self, settings: Collector) -> None:
        self._socket: socket.socket | None = None
        plain = settings.id or _shortened(f"{socket.gethostname()}/{settings.name_server}")
        number = self._claim(f"{plain} {settings.name_server}" if settings.id else plain)
        self.text = plain if settings.id or number == 1 else f"{plain}#{number}"
        self.holder = _place(plain, number) if self._socket else uuid.uuid4().hex

    def close(self) -> None:
        """Let another have the name."""
        if self._socket:
            self._socket.close()

    def _claim(self, plain: str) -> int:
        """Which one of this name on the host it is, from 1 on."""
        if sys.platform != "linux":
            return 1
        for number in range(1, MOST_ON_A_HOST + 1):
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                claim.bind(f"\0balancewatch-collector-{_digest(plain)}-{number}")
                self._socket = claim
                return number
            claim.close()
        return 1


def _place(plain: str, number: int) -> str:
    """The socket's: two of one name are never alive at the same time in one network namespace of one boot."""
    try:
        boot, namespace = BOOT_ID.read_text().strip(), NETWORK.readlink()
    except OSError:
        return uuid.uuid4().hex
    return _digest(f"{boot} {namespace} {plain} {number}")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 17]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
