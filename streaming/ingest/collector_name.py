"""Which collector this is: a name that stays over restarts and that no other collector of the cluster has."""

import contextlib
import hashlib
import socket
import sys

from conf.settings import Collector

MOST_ON_A_HOST = 100
MAX_LENGTH = 200


class CollectorName:
    """`collector.id`, or host and NameServer, with "#2", "#3", ... for a second and a third one on the host.

    Held by a socket in Linux' abstract namespace, which is the host's (a container's its own) and leaves nothing
    behind, however the process dies.
    """

    def __init__(self, settings: Collector) -> None:
        self._socket: socket.socket | None = None
        plain = settings.id or _shortened(f"{socket.gethostname()}/{settings.name_server}")
        self.text = plain if settings.id else self._claim(plain)

    def close(self) -> None:
        """Let another have the name."""
        if self._socket:
            self._socket.close()

    def _claim(self, plain: str) -> str:
        if sys.platform != "linux":
            return plain
        for number in range(1, MOST_ON_A_HOST + 1):
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            with contextlib.suppress(OSError):
                claim.bind(f"\0balancewatch-collector-{_digest(plain)}-{number}")
                self._socket = claim
                return plain if number == 1 else f"{plain}#{number}"
            claim.close()
        return plain


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 17]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
