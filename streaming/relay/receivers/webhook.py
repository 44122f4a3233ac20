"""Any HTTP address, in the format of Alertmanager's webhook (version 4), which most tools can read.

Source: Alertmanager's docs/configuration.md, <webhook_config>. Differences: a fingerprint is the alert_id, and
`notification_reason` is the alerts table's `reason`.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from streaming.relay.notice import NO_LINKS, Links, Notice
from streaming.relay.receivers.alertmanager import annotations, labels
from streaming.relay.receivers.posting import Answer, HttpReceiver, json_bytes
from streaming.text.times import iso

NO_END = "0001-01-01T00:00:00Z"
"""Go's zero time: Alertmanager's end of a firing alert."""

GROUPED_BY = ("alertname", "cluster")


class Webhook(HttpReceiver):
    """One address. Each notice is one request, with its key as Idempotency-Key; any 2xx is delivered."""

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        (notice,) = notices
        body = json_bytes(message(notices, now_ms, self.name, self._links))
        key = quote(notice.key, safe=":-", errors="replace")  # as an HTTP header can hold it
        return self._poster.post(body, now_ms, headers={"Idempotency-Key": key}).answer


def message(notices: Sequence[Notice], now_ms: int, receiver: str, links: Links = NO_LINKS) -> dict[str, Any]:
    """Return the request's body for one group of notices; it fires while one of them does."""
    alerts = [_alert(notice, now_ms, links) for notice in notices]
    common = _common([alert["labels"] for alert in alerts])
    group = {name: common[name] for name in GROUPED_BY if name in common}
    pairs = ", ".join(f'{name}="{value}"' for name, value in group.items())
    return {
        "version": "4",
        "groupKey": f"{{}}:{{{pairs}}}",
        "truncatedAlerts": 0,
        "status": "firing" if any(notice.status == "firing" for notice in notices) else "resolved",
        "receiver": receiver,
        "groupLabels": group,
        "commonLabels": common,
        "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
        "externalURL": links.board_url,
        "notification_reason": next((notice.reason for notice in notices if notice.reason), ""),
        "alerts": alerts,
    }


def _alert(notice: Notice, now_ms: int, links: Links) -> dict[str, Any]:
    ended_ms = max(notice.started_at_ms, min(notice.changed_at_ms, now_ms))
    return {
        "status": notice.status,
        "labels": labels(notice),
        "annotations": annotations(notice, links),
        "startsAt": iso(notice.started_at_ms),
        "endsAt": NO_END if notice.status == "firing" else iso(ended_ms),
        "generatorURL": links.incident(notice) or "",
        "fingerprint": notice.alert_id,
    }


def _common(maps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the entries that all have."""
    return {name: value for name, value in maps[0].items() if all(other.get(name) == value for other in maps[1:])}
