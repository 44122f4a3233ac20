"""Where the board tells of an incident: what a receiver shows as the way from the alert to its story."""

from urllib.parse import quote

from streaming.oncall.notice import Notice
from udfs.routing import WATCHDOG


def incident_link(board_url: str | None, notice: Notice) -> str | None:
    """The page of the notice's incident; the watchdog is in no table, so it leads to the first one. None: no board."""
    if not board_url:
        return None
    root = board_url.rstrip("/")
    return f"{root}/" if notice.kind == WATCHDOG else f"{root}/incident?id={quote(notice.incident_id, safe='')}"
