"""When a receiver may be called again: its own limit, its Retry-After, our backoff."""

import random
from dataclasses import dataclass

from streaming.oncall.receiver import Answer
from udfs.alerts.self_kinds import LIMITS

RETRY_AFTER_MOST_MS = 3_600_000
"""A Retry-After beyond an hour is taken for a mistake: a page cannot wait for it."""


_WRONG_ADDRESS = frozenset({404, 405, 410})
"""And every redirect: no notice would be taken there."""


@dataclass(frozen=True)
class Pace:
    """The settings of `[oncall]` about time, in ms."""

    resend_ms: int = 60_000
    resolved_resend_ms: int = 900_000
    backoff_min_ms: int = 1_000
    backoff_max_ms: int = 60_000
    auth_retry_ms: int = 300_000
    unreachable_ms: int = 600_000
    digest_ms: int = 5_000


class Backoff:
    """How one receiver has answered lately. A success forgets all failures."""

    def __init__(self, pace: Pace, rng: random.Random) -> None:
        self._pace, self._rng = pace, rng
        self._failures = 0
        self._failing_since_ms: int | None = None
        self._is_key_bad = False
        self._refusals = 0
        self.resumes_at_ms = 0

    def answered(self, answer: Answer, now_ms: int, min_interval_ms: int) -> None:
        """Note an answer. REFUSED is about what was sent, unless it is about the address."""
        if answer.verdict == "DELIVERED":
            self._refusals = 0
        elif answer.verdict == "REFUSED" and _is_about_address(answer):
            self._refusals = LIMITS.most_refusals
        if answer.verdict in ("DELIVERED", "REFUSED"):
            self._failures, self._failing_since_ms, self._is_key_bad = 0, None, False
            self.resumes_at_ms = now_ms + min_interval_ms
            return
        self._failures += 1
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        self._is_key_bad = answer.verdict == "BAD_KEY"
        self.resumes_at_ms = now_ms + max(min_interval_ms, self._pause_ms(answer))

    def refused(self, notices: int) -> None:
        """So many were given up by the answer that was noted last."""
        self._refusals += notices

    def backoff_ms(self, failures: int) -> int:
        """Twice as long each time up to the most, and half of it by chance, so that receivers do not march in step."""
        longest: float = min(self._pace.backoff_max_ms, self._pace.backoff_min_ms * 2 ** min(failures - 1, 30))
        return round(longest * self._rng.uniform(0.5, 1.0))

    def trouble(self, now_ms: int) -> str | None:
        """`bad_key`, `refuses`, or `unreachable` once it has failed for long enough to tell others."""
        if self._is_key_bad:
            return "bad_key"
        if self._refusals >= LIMITS.most_refusals:
            return "refuses"
        since_ms = self._failing_since_ms
        return "unreachable" if since_ms is not None and now_ms - since_ms >= self._pace.unreachable_ms else None

    def _pause_ms(self, answer: Answer) -> int:
        if answer.verdict == "BAD_KEY":
            return self._pace.auth_retry_ms
        if answer.retry_after_seconds is not None:
            return min(round(answer.retry_after_seconds * 1000), RETRY_AFTER_MOST_MS)
        if is_about_notice(answer):
            return self.backoff_ms(1)
        return self.backoff_ms(self._failures)


def _is_about_address(answer: Answer) -> bool:
    code = answer.code or 0
    return 300 <= code < 400 or code in _WRONG_ADDRESS


def is_about_notice(answer: Answer) -> bool:
    """A 5xx may be what was sent, not who was asked: others may go on, that one waits."""
    return answer.verdict == "RETRY" and answer.retry_after_seconds is None and (answer.code or 0) >= 500
