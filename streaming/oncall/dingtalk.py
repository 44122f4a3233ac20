"""A DingTalk group robot: one markdown digest a message.

20 messages a minute, then the robot is shut for ten; the vendor asks alerting to merge. Its limits, codes and
signature: open.dingtalk.com, "custom robots: send group messages".
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from streaming.oncall.chat_answer import judge
from streaming.oncall.digest import MARKDOWN, digest, fits, headline
from streaming.oncall.links import NO_LINKS, Links
from streaming.oncall.notice import Notice
from streaming.oncall.posting import json_bytes
from streaming.oncall.receiver import Answer, Verdict
from streaming.oncall.robot import Robot

BODY_BYTES = 20_000
SHUT_SECONDS = 600.0

VERDICTS: Mapping[int, tuple[Verdict, float | None]] = {
    -1: ("RETRY", None),  # busy
    130101: ("RETRY", SHUT_SECONDS),  # send too fast
    410100: ("RETRY", SHUT_SECONDS),  # send too fast
    300001: ("BAD_KEY", None),  # the token
    300005: ("BAD_KEY", None),  # token is not exist
    310000: ("BAD_KEY", None),  # sign, timestamp, keyword or address: the robot's security settings
    400101: ("BAD_KEY", None),  # the token
    400102: ("BAD_KEY", None),  # the robot is switched off
    400106: ("BAD_KEY", None),  # there is no such robot
}


class DingTalk(Robot):
    """One robot. `url` holds its access_token; `secret` (SEC...) where its security setting is the signature."""

    min_interval_seconds = 3.5

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        """Delivered is what the robot confirms with errcode 0."""
        params = signature(self._secret, now_ms) if self._secret else None
        body = json_bytes(message(notices, now_ms, self._links))
        reply = self._poster.post(body, now_ms, params=params, needs_body=True)
        return judge(reply, self._poster, ("errcode",), "errmsg", VERDICTS)


def message(notices: Sequence[Notice], now_ms: int, links: Links = NO_LINKS) -> dict[str, Any]:
    """The request's body, at most BODY_BYTES."""
    title = headline(notices)

    def envelope(text: str) -> dict[str, Any]:
        return {"msgtype": "markdown", "markdown": {"title": title, "text": f"### {title}\n\n{text}"}}

    return envelope(digest(notices, now_ms, MARKDOWN, fits(envelope, BODY_BYTES), links))


def signature(secret: str, now_ms: int) -> dict[str, str]:
    """The query parameters that prove the secret: HMAC-SHA256 over "timestamp\\nsecret", good for an hour."""
    digested = hmac.new(secret.encode(), f"{now_ms}\n{secret}".encode(), hashlib.sha256).digest()
    return {"timestamp": str(now_ms), "sign": base64.b64encode(digested).decode("ascii")}
