"""The log as a receiver: one line per notice."""

import contextlib
from collections.abc import Sequence

import structlog

from streaming.relay.notice import NO_LINKS, Links, Notice, one_line
from streaming.relay.receivers.posting import Answer, Receiver, Traits
from streaming.text.times import iso

LINE_CHARACTERS = 2_000

log = structlog.get_logger()


class LogReceiver(Receiver):
    """Never fails, even if stderr is closed."""

    traits = Traits(at_most=100, is_quiet=True)

    def __init__(self, name: str = "log", links: Links = NO_LINKS) -> None:
        self.name, self._links = name, links

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """Log each notice as `alert firing` (a warning) or `alert resolved`."""
        for notice in notices:
            write = log.warning if notice.status == "firing" else log.info
            fields = {
                "kind": notice.kind,
                "severity": notice.severity,
                "incident_id": notice.incident_id,
                "cause": notice.cause,
                "reason": notice.reason,
                **{name: value for name, value in notice.all_labels().items() if name not in {"kind", "event"}},
                "summary": one_line(notice.summary, LINE_CHARACTERS),
                "advice": one_line(notice.advice, LINE_CHARACTERS),
                **({"runbook_url": runbook} if (runbook := self._links.runbook(notice)) else {}),
                "started_at": iso(notice.started_at_ms),
                "changed_at": iso(notice.changed_at_ms),
            }
            with contextlib.suppress(OSError, ValueError):
                write(f"alert {notice.status}", **fields)
        return Answer("DELIVERED", None, f"{len(notices)} written to the log")
