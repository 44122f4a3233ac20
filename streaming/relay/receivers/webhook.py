"""Any HTTP address, in the format of Alertmanager's webhook (version 4), which most tools can read.

Source: Alertmanager's docs/configuration.md, <webhook_config>. Differences: a fingerprint is the alert_id, and
`notification_reason` is the alerts table's `reason`.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from streaming.relay.notice import NO_LINKS, Links, Notice
from streaming.relay.receivers.alertmanager import alert_of
from streaming.relay.receivers.posting import Answer, HttpReceiver, json_bytes

NO_END = "0001-01-01T00:00:00Z"
"""Go's zero time: Alertmanager's end of a firing alert."""


class Webhook(HttpReceiver):
    """One address. Each notice is one request, with its key as Idempotency-Key; any 2xx is delivered."""

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        (notice,) = notices
        key = quote(notice.key, safe=":-", errors="replace")  # as an HTTP header can hold it
        body = json_bytes(message(notice, self.name, self._links))
        return self.post(body, now_ms, headers={"Idempotency-Key": key})


def message(notice: Notice, receiver: str, links: Links = NO_LINKS) -> dict[str, Any]:
    """Return the request's body, for a group of one notice. Times are the alert's, whatever this clock says."""
    alert = alert_of(notice, max(notice.started_at_ms, notice.changed_at_ms), NO_END, links)
    group = {name: alert["labels"][name] for name in ("alertname", "cluster") if name in alert["labels"]}
    pairs = ", ".join(f'{name}="{value}"' for name, value in group.items())
    facts = {"status": notice.status, "generatorURL": "", "fingerprint": notice.alert_id}
    return {
        "version": "4",
        "groupKey": f"{{}}:{{{pairs}}}",
        "truncatedAlerts": 0,
        "status": notice.status,
        "receiver": receiver,
        "groupLabels": group,
        "commonLabels": alert["labels"],
        "commonAnnotations": alert["annotations"],
        "externalURL": links.board_url,
        "notification_reason": notice.reason or "",
        "alerts": [facts | alert],
    }
