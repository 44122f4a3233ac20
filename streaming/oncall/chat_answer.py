"""What a chat's robot means: HTTP 200 may carry a refusal, so its own code decides where there is one.

A 200 without a code is not taken for success: a proxy's login page answers 200 too.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from streaming.oncall.posting import Poster, Reply
from streaming.oncall.receiver import Answer, Verdict


def judge(
    reply: Reply,
    poster: Poster,
    code_fields: tuple[str, ...],
    message_field: str,
    verdicts: Mapping[int, tuple[Verdict, float | None]],
) -> Answer:
    """The answer by the first of `code_fields` that the body has: 0 is success, `verdicts` gives verdict and seconds
    to wait for others, and one that is not listed is as the HTTP status says, REFUSED on 200. What says "too many" or
    "too fast" is a limit, whatever its code.
    """
    answer = reply.answer
    if answer.code is None:
        return answer
    fields = reply.fields()
    code = _number(next((fields[name] for name in code_fields if name in fields), None))
    if code is None:
        code = _code_in(reply.body, code_fields)
    if code is None or (code == 0 and answer.verdict != "DELIVERED"):
        if answer.verdict != "DELIVERED":
            return answer
        return Answer("RETRY", answer.code, f"{poster.host} answered {answer.code} without a robot's result code")
    if code == 0:
        return answer
    message = poster.quote(str(fields.get(message_field, "")))
    unlisted: Verdict = "REFUSED" if answer.verdict == "DELIVERED" else answer.verdict  # what the HTTP status says
    verdict, seconds = verdicts.get(code, (unlisted, None))
    if verdict == "REFUSED" and any(phrase in message.lower() for phrase in ("too many", "too fast", "frequency")):
        verdict, seconds = "RETRY", 60.0
    if verdict == "RETRY":
        seconds = max(seconds or 0.0, answer.retry_after_seconds or 0.0) or None
    return dataclasses.replace(
        answer,
        verdict=verdict,
        reason=f"{poster.host} rejected the message with code {code}: {message}",
        retry_after_seconds=seconds,
    )


def _code_in(body: bytes, code_fields: tuple[str, ...]) -> int | None:
    """The code of a body that has not come whole: only an object's, and only where the number itself is whole."""
    for name in code_fields:
        found = re.search(rb'"%s"\s*:\s*(-?\d{1,11})\s*[,}]' % name.encode(), body)
        if found and body.lstrip().startswith(b"{"):
            return int(found[1])
    return None


def _number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 12 else None
