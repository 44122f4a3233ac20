"""The ways from an alert to what is known of it: its incident on the board, and the runbook of its kind."""

from dataclasses import dataclass
from urllib.parse import quote

from streaming.oncall.notice import Notice
from udfs.alerts.routing import WATCHDOG
from udfs.alerts.runbook import runbook_url


@dataclass(frozen=True)
class Links:
    """Where people reach the board and the runbooks. What is empty leads nowhere."""

    board_url: str = ""
    runbooks_url: str = ""

    def incident(self, notice: Notice) -> str | None:
        """The page of the notice's incident; the watchdog is in no table, so it leads to the first one."""
        if not self.board_url:
            return None
        root = self.board_url.rstrip("/")
        return f"{root}/" if notice.kind == WATCHDOG else f"{root}/incident?id={quote(notice.incident_id, safe='')}"

    def runbook(self, notice: Notice) -> str | None:
        """The page of its kind, at its cause."""
        return runbook_url(self.runbooks_url, notice.kind, notice.cause) if self.runbooks_url else None


NO_LINKS = Links()
