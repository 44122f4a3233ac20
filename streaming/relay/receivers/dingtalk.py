"""A DingTalk group robot: one markdown digest per message.

At most 20 messages a minute, or the robot is blocked for ten minutes. Limits, codes and signature: open.dingtalk.com,
"custom robots: send group messages".
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from streaming.relay.notice import NO_LINKS, Links, Notice
from streaming.relay.receivers.posting import Answer, HttpReceiver, Traits, Verdict, json_bytes
from streaming.relay.receivers.robot import MARKDOWN, digest, fits, headline, judge

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


class DingTalk(HttpReceiver):
    """One robot. `url` contains its access_token; `secret` (SEC...) signs, if its security setting asks for it.

    A digest is delivered if the robot answers errcode 0.
    """

    traits = Traits(at_most=20, min_interval_ms=3_500)

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        params = signature(self._secret, now_ms) if self._secret else None
        body = json_bytes(message(notices, now_ms, self._links))
        reply = self._poster.post(body, now_ms, params=params, needs_body=True)
        return judge(reply, self._poster, ("errcode",), "errmsg", VERDICTS)


def message(notices: Sequence[Notice], now_ms: int, links: Links = NO_LINKS) -> dict[str, Any]:
    """Return the request's body, at most BODY_BYTES."""
    title = headline(notices)

    def envelope(text: str) -> dict[str, Any]:
        return {"msgtype": "markdown", "markdown": {"title": title, "text": f"### {title}\n\n{text}"}}

    return envelope(digest(notices, now_ms, MARKDOWN, fits(envelope, BODY_BYTES), links))


def signature(secret: str, now_ms: int) -> dict[str, str]:
    """Return the signature's query parameters: HMAC-SHA256 of "timestamp\\nsecret", valid for an hour."""
    digested = hmac.new(secret.encode(), f"{now_ms}\n{secret}".encode(), hashlib.sha256).digest()
    return {"timestamp": str(now_ms), "sign": base64.b64encode(digested).decode("ascii")}
