"""A Feishu (Lark) custom bot: one card with a digest per message.

The card's text is plain_text: in Feishu's markdown a client named `<at id=all></at>` would mention everybody. At most
100 messages a minute and 5 a second; bodies up to 20 KB. Source: open.feishu.cn, custom bot guide.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from streaming.relay.notice import NO_LINKS, Links, Notice
from streaming.relay.receivers.posting import Answer, HttpReceiver, Traits, Verdict, json_bytes
from streaming.relay.receivers.robot import PLAIN, digest, fits, headline, judge

BODY_BYTES = 20_000
SIGNATURE_BYTES = 200
"""Room for timestamp and sign, which are added last."""

LIMITED_SECONDS = 60.0

VERDICTS: Mapping[int, tuple[Verdict, float | None]] = {
    11232: ("RETRY", LIMITED_SECONDS),  # frequency limited
    19001: ("BAD_KEY", None),  # incoming webhook access token invalid
    19021: ("BAD_KEY", None),  # the signature, or its time is off by more than an hour
    19022: ("BAD_KEY", None),  # this address is not on its list
    19024: ("BAD_KEY", None),  # its keyword is not in the text
}
TWO_MEANINGS = 9499
""" "too many request" and "Bad Request" share it: only the second is final."""


class Feishu(HttpReceiver):
    """One bot. The path of `url` contains its token; `secret` signs, if its security setting asks for it.

    A card is delivered if the bot answers code 0 (StatusCode in older answers).
    """

    traits = Traits(at_most=20, min_interval_ms=700)

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        body = message(notices, now_ms, self._links)
        if self._secret:
            body = {**signature(self._secret, now_ms), **body}
        reply = self._poster.post(json_bytes(body), now_ms, needs_body=True)
        is_bad_request = "bad request" in str(reply.fields().get("msg", "")).lower()
        limited: tuple[Verdict, float | None] = ("REFUSED", None) if is_bad_request else ("RETRY", LIMITED_SECONDS)
        return judge(reply, self._poster, ("code", "StatusCode"), "msg", {**VERDICTS, TWO_MEANINGS: limited})


def message(notices: Sequence[Notice], now_ms: int, links: Links = NO_LINKS) -> dict[str, Any]:
    """Return the request's body, at most BODY_BYTES with its signature."""
    title = headline(notices)
    colour = "red" if any(notice.status == "firing" for notice in notices) else "green"

    def envelope(text: str) -> dict[str, Any]:
        return {
            "msg_type": "interactive",
            "card": {
                "header": {"template": colour, "title": {"tag": "plain_text", "content": title}},
                "elements": [{"tag": "div", "text": {"tag": "plain_text", "content": text}}],
            },
        }

    return envelope(digest(notices, now_ms, PLAIN, fits(envelope, BODY_BYTES - SIGNATURE_BYTES), links))


def signature(secret: str, now_ms: int) -> dict[str, str]:
    """Return the signature's fields: HMAC-SHA256 of an empty text with the key "timestamp\\nsecret", in seconds."""
    seconds = str(now_ms // 1000)
    digested = hmac.new(f"{seconds}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": seconds, "sign": base64.b64encode(digested).decode("ascii")}
