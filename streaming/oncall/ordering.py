"""The incidents of one alert at one receiver: the end of the older belongs before the beginning of the newer.

An address that knows an alert by its labels (Alertmanager) knows no incidents: told late or again, the end of the
older would end the newer.
"""

from streaming.oncall.notice import Notice


class Ordering:
    """Incidents by alert, in the order in which they began."""

    def __init__(self) -> None:
        self._began: dict[str, dict[str, int]] = {}

    def enter(self, notice: Notice) -> None:
        self._began.setdefault(notice.alert_id, {})[notice.incident_id] = notice.started_at_ms

    def leave(self, notice: Notice) -> None:
        incidents = self._began.get(notice.alert_id, {})
        incidents.pop(notice.incident_id, None)
        if not incidents:
            self._began.pop(notice.alert_id, None)

    def older(self, notice: Notice) -> list[str]:
        """Those of the same alert that began before it."""
        return [one for one, at_ms in self._others(notice) if (at_ms, one) < (notice.started_at_ms, notice.incident_id)]

    def newer(self, notice: Notice) -> list[str]:
        """Those of the same alert that began after it."""
        return [one for one, at_ms in self._others(notice) if (at_ms, one) > (notice.started_at_ms, notice.incident_id)]

    def _others(self, notice: Notice) -> list[tuple[str, int]]:
        incidents = self._began.get(notice.alert_id, {})
        return list(incidents.items()) if len(incidents) > 1 else []
