"""Three receivers on the loopback that record what arrives: a webhook, PagerDuty's Events API, Alertmanager's API v2.

Each answers by its mode, which faults set. All three append to one file, from which the checker learns what a person
would have been paged; none of them knows anything about the cluster.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal

from tests.lab.storm.checker import Arrival
from tests.relay.fakes import Behaviour, Drip, FakeServer, Hang, Received, Reply, Reset

Style = Literal["webhook", "pagerduty", "alertmanager"]

STYLES: tuple[Style, ...] = ("webhook", "pagerduty", "alertmanager")
PATHS = {"webhook": "/", "pagerduty": "/v2/enqueue", "alertmanager": "/"}
PAGERDUTY_STATES = {"trigger": "firing", "resolve": "resolved"}


class Diary:
    """The file of all arrivals; receivers append to it from their threads."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self.count = 0
        path.touch()

    def add(self, arrivals: list[Arrival]) -> None:
        with self._lock, self._path.open("a") as file:
            file.writelines(json.dumps(asdict(arrival)) + "\n" for arrival in arrivals)
            self.count += len(arrivals)


class Receiver:
    """One address that survives the death of its server. `mode` is well, slow, refuses or trickles."""

    def __init__(self, style: Style, diary: Diary, seed: str) -> None:
        self.name: Style = style
        self.mode = "well"
        self._diary, self._random = diary, random.Random(f"{style} {seed}")
        self._server: FakeServer | None = _Life(self, 0)
        self.port = self._server.port
        self.url = f"{self._server.root}{PATHS[style]}".rstrip("/")

    def die(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def rise(self) -> None:
        """Answer at the same port again."""
        if self._server is None:
            self._server = _Life(self, self.port)

    def take(self, request: Received) -> tuple[Behaviour, float]:
        """Note the request; return the answer and the seconds before it, some longer than the relay's timeout."""
        answer = self._answer()
        is_clear = isinstance(answer, Reply) and answer.code < 300 and self.mode == "well"
        at_ms = time.time_ns() // 1_000_000
        if isinstance(request.fields, dict | list):
            self._diary.add(list(READERS[self.name](request, at_ms, is_clear)))
        return answer, self._random.uniform(0.5, 14.0) if self.mode == "slow" else 0.0

    def _answer(self) -> Behaviour:
        headers = {"Date": formatdate(usegmt=True)}
        well = Reply(202 if self.name == "pagerduty" else 200, {"status": "success"}, headers)
        refusals = (Reply(503, b"", headers), Reply(500, b"", headers), Reset(), Reply(429, b"", {"Retry-After": "3"}))
        trickles = (Drip(0.1), Drip(0.02, 200), Drip(0.5), Hang())
        answers: dict[str, tuple[Behaviour, ...]] = {"refuses": refusals, "trickles": trickles}
        return self._random.choice(answers[self.mode]) if self.mode in answers else well


class _Life(FakeServer):
    """One life of a receiver at its port."""

    def __init__(self, owner: Receiver, port: int) -> None:
        self._owner = owner
        super().__init__(port)

    def take(self, request: Received) -> Behaviour:
        answer, pause = self._owner.take(request)
        if pause:
            self.is_closed_within(pause)
        return answer


def _webhook(request: Received, at_ms: int, is_clear: bool) -> Iterator[Arrival]:
    for alert in request.fields["alerts"]:
        yield Arrival(
            "webhook",
            at_ms,
            is_clear,
            alert["annotations"]["incident_id"],
            alert["status"],
            alert["labels"]["alertname"],
            alert["labels"],
            _ms(alert["startsAt"]),
            _ms(alert["endsAt"]) if alert["status"] == "resolved" else None,
            request.headers["idempotency-key"],
        )


def _pagerduty(request: Received, at_ms: int, is_clear: bool) -> Iterator[Arrival]:
    event: dict[str, Any] = request.fields
    payload = event.get("payload", {})
    details = payload.get("custom_details", {})
    status = PAGERDUTY_STATES.get(event["event_action"], event["event_action"])
    key = f"{event['dedup_key']} {status} {payload.get('timestamp', '')}"
    started_ms = _ms(details["started_at"]) if details else 0
    kind, labels = payload.get("class", ""), details.get("labels", {})
    yield Arrival("pagerduty", at_ms, is_clear, event["dedup_key"], status, kind, labels, started_ms, None, key)


def _alertmanager(request: Received, at_ms: int, is_clear: bool) -> Iterator[Arrival]:
    """Alertmanager decides by `endsAt` and its own clock. An old severity that ends beside the new one is no end."""
    firing = {alert["annotations"]["incident_id"] for alert in request.fields if _ms(alert["endsAt"]) > at_ms}
    for alert in request.fields:
        ends_ms, incident = _ms(alert["endsAt"]), alert["annotations"]["incident_id"]
        status = "firing" if ends_ms > at_ms else "resolved"
        if status == "resolved" and incident in firing:
            continue
        labels, started_ms = alert["labels"], _ms(alert["startsAt"])
        key = f"{incident} {status}"
        changed_ms = ends_ms if status == "resolved" else None
        kind = labels["alertname"]
        yield Arrival(
            "alertmanager", at_ms, is_clear, incident, status, kind, labels, started_ms, changed_ms, key, ends_ms
        )


READERS = {"webhook": _webhook, "pagerduty": _pagerduty, "alertmanager": _alertmanager}


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
