"""PagerDuty, DingTalk, Feishu and a webhook as they judge a request: required fields, limits, signatures.

They answer what the vendor answers, so a receiver that breaks a rule fails as it would in production. Each starts on
a free port of the loopback: `with FakeDingTalk(secret="SEC") as robot: DingTalk("ops", robot.url, secret="SEC")`.
"""

import base64
import hashlib
import hmac
import time
from datetime import datetime
from typing import Any

from tests.relay.fakes import FakeServer, Received, Reply

ROUTING_KEY = "0123456789abcdef0123456789abcdef"

HOUR_SECONDS = 3_600


class FakePagerDuty(FakeServer):
    """Events API v2. `open` holds the dedup_keys of open incidents and the trigger that opened each;
    `opened` counts how often each was opened: a page each. `acknowledged` are the open ones somebody is at.
    """

    path = "/v2/enqueue"

    def __init__(self, routing_key: str = ROUTING_KEY) -> None:
        self.routing_key = routing_key
        self.open: dict[str, Any] = {}
        self.acknowledged: set[str] = set()
        self.opened: dict[str, int] = {}
        super().__init__()

    def judge(self, request: Received) -> Reply:
        errors = self._errors(request)
        if errors:
            return Reply(400, {"status": "invalid event", "message": "Event object is invalid", "errors": errors})
        event = request.fields
        key = event["dedup_key"]
        match event["event_action"]:
            case "trigger" if key not in self.open:
                self.open[key] = event
                self.opened[key] = self.opened.get(key, 0) + 1
            case "acknowledge" if key in self.open:
                self.acknowledged.add(key)
            case "resolve":
                self.open.pop(key, None)
                self.acknowledged.discard(key)
        return Reply(202, {"status": "success", "message": "Event processed", "dedup_key": key})

    def _errors(self, request: Received) -> list[str]:
        event = request.fields
        if request.path != self.path or not isinstance(event, dict) or len(request.body) > 512 * 1024:
            return ["the event is no object, too large, or at the wrong path"]
        errors = []
        if len(str(event.get("routing_key", ""))) != 32:
            errors.append("Length of 'routing_key' is incorrect (should be 32 characters)")
        elif event["routing_key"] != self.routing_key:
            errors.append("Invalid routing key")
        if event.get("event_action") not in {"trigger", "acknowledge", "resolve"}:
            errors.append("'event_action' is invalid")
        if not 0 < len(str(event.get("dedup_key") or "")) <= 255:
            errors.append("'dedup_key' is missing or too long")
        if event.get("event_action") == "trigger":
            errors += self._payload_errors(event.get("payload"))
        return errors

    def _payload_errors(self, payload: Any) -> list[str]:
        if not isinstance(payload, dict):
            return ["'payload' is missing"]
        errors = [f"'payload.{name}' is missing or blank" for name in ("summary", "source") if not payload.get(name)]
        if len(payload.get("summary", "")) > 1024:
            errors.append("'payload.summary' is too long")
        if payload.get("severity") not in {"critical", "error", "warning", "info"}:
            errors.append("'payload.severity' is invalid")
        if "timestamp" in payload:
            datetime.fromisoformat(payload["timestamp"])
        return errors


class FakeDingTalk(FakeServer):
    """A group robot. `messages` are the markdown texts it showed. With a `secret` it wants the signature of
    `now_ms`, within an hour; the wall clock without it.
    """

    path = "/robot/send?access_token=d1ng-ta1k-t0ken"

    def __init__(self, secret: str | None = None, now_ms: int | None = None, keyword: str = "") -> None:
        self.secret = secret
        self.now_ms = now_ms
        self.keyword = keyword
        self.messages: list[str] = []
        super().__init__()

    def judge(self, request: Received) -> Reply:
        if request.query.get("access_token") != "d1ng-ta1k-t0ken":
            return _dingtalk(300005, "token is not exist")
        if self.secret and not self._is_signed(request):
            return _dingtalk(310000, "sign not match")
        message = request.fields if isinstance(request.fields, dict) and len(request.body) <= 20_000 else {}
        markdown = message.get("markdown", {})
        if message.get("msgtype") != "markdown" or not markdown.get("title") or not markdown.get("text"):
            return _dingtalk(40035, "missing parameter json")
        if self.keyword not in markdown["text"]:
            return _dingtalk(310000, "keywords not in content")
        self.messages.append(markdown["text"])
        return _dingtalk(0, "ok")

    def _is_signed(self, request: Received) -> bool:
        timestamp = request.query.get("timestamp", "")
        signed = f"{timestamp}\n{self.secret}".encode()
        expected = base64.b64encode(hmac.new(str(self.secret).encode(), signed, hashlib.sha256).digest()).decode()
        return timestamp.isdecimal() and request.query.get("sign") == expected and _is_now(int(timestamp), self.now_ms)


class FakeFeishu(FakeServer):
    """A custom bot. `messages` are the texts of the cards it showed; `secret` and `now_ms` as DingTalk's."""

    path = "/open-apis/bot/v2/hook/f31shu-t0ken-0123456789"

    def __init__(self, secret: str | None = None, now_ms: int | None = None) -> None:
        self.secret = secret
        self.now_ms = now_ms
        self.messages: list[str] = []
        super().__init__()

    def judge(self, request: Received) -> Reply:
        message = request.fields
        if request.path != self.path:
            return Reply(400, {"code": 19001, "msg": "param invalid: incoming webhook access token invalid"})
        if not isinstance(message, dict) or len(request.body) > 20 * 1024:
            return Reply(200, {"code": 9499, "msg": "Bad Request", "data": {}})
        if self.secret and not self._is_signed(message):
            return Reply(200, {"code": 19021, "msg": "sign match fail or timestamp is not within one hour"})
        if message.get("msg_type") != "interactive" or message["card"]["header"]["title"]["tag"] != "plain_text":
            return Reply(200, {"code": 19002, "msg": "params error, msg_type need"})
        self.messages += [element["text"]["content"] for element in message["card"]["elements"]]
        return Reply(200, {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"})

    def _is_signed(self, message: dict[str, Any]) -> bool:
        timestamp = str(message.get("timestamp", ""))
        expected = base64.b64encode(hmac.new(f"{timestamp}\n{self.secret}".encode(), b"", hashlib.sha256).digest())
        is_now = timestamp.isdecimal() and _is_now(int(timestamp) * 1000, self.now_ms)
        return is_now and message.get("sign") == expected.decode()


class FakeWebhook(FakeServer):
    """A receiver of Alertmanager's webhook: every field of version 4, no key twice.

    `keys_taken` are the Idempotency-Keys in order of arrival without repetitions, which it drops.
    """

    path = "/hook"

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.keys_taken: list[str] = []
        super().__init__()

    def judge(self, request: Received) -> Reply:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return Reply(401, {"error": "unauthorized"})
        message = request.fields if isinstance(request.fields, dict) else {}
        kinds: dict[str, type] = dict.fromkeys(("groupKey", "receiver", "externalURL", "notification_reason"), str)
        kinds |= {"groupLabels": dict, "commonLabels": dict, "commonAnnotations": dict, "truncatedAlerts": int}
        is_whole = (
            message.get("version") == "4"
            and message.get("status") in {"firing", "resolved"}
            and all(isinstance(message.get(name), kind) for name, kind in kinds.items())
            and message.get("alerts")
        )
        if not is_whole or not all(map(_is_alert, message["alerts"])):
            return Reply(400, {"error": "not a version 4 webhook"})
        key = request.headers.get("idempotency-key")
        if key and key not in self.keys_taken:
            self.keys_taken.append(key)
        return Reply(200, {"status": "success"})


def _is_alert(alert: dict[str, Any]) -> bool:
    datetime.fromisoformat(alert["startsAt"])
    datetime.fromisoformat(alert["endsAt"])
    return alert["status"] in {"firing", "resolved"} and "alertname" in alert["labels"] and bool(alert["fingerprint"])


def _dingtalk(code: int, message: str) -> Reply:
    return Reply(200, {"errcode": code, "errmsg": message})


def _is_now(timestamp_ms: int, now_ms: int | None) -> bool:
    return abs((now_ms or time.time_ns() // 1_000_000) - timestamp_ms) < HOUR_SECONDS * 1000
