"""What every receiver is: one address that takes notices and answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from streaming.oncall.notice import Notice

Verdict = Literal["DELIVERED", "RETRY", "REFUSED", "BAD_KEY"]
"""DELIVERED: it has it. RETRY: later, perhaps (429, 5xx, no answer). REFUSED: never, as it stands (other 4xx).
BAD_KEY: never, and nothing else either, until somebody mends the key (401, 403, an unknown routing key)."""


@dataclass(frozen=True)
class Answer:
    """What came of one attempt. `code` is the HTTP status, None when no answer came.

    `refused` are the keys of the notices of a batch that this address will never take, whatever `verdict` says of
    the others; it is empty where the verdict holds for all.
    """

    verdict: Verdict
    code: int | None
    reason: str
    retry_after_seconds: float | None = None
    refused: tuple[str, ...] = ()


class Receiver(Protocol):
    """One address. `send` blocks until there is an answer or the time-out; it never raises and never retries.

    `at_most` is how many notices one call takes (a digest, a batch); `min_interval_seconds` is the pause its own limit
    asks for between two calls. `is_leased`: open incidents must be told again every while, or they end there.
    """

    name: str
    at_most: int
    min_interval_seconds: float
    is_leased: bool

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer: ...
    def close(self) -> None: ...
