"""A receiver's protocol, and one HTTP POST with the meaning of its answer: delivered, retry, refused, or a bad key.

The HTTP status decides as soon as the headers arrive, however slow the body. Redirects are not followed: they would
carry an alert, and perhaps a key, to an address that is not configured. `Answer.reason` contains no secret: an address
is named by its host, and secrets that an answer echoes are masked.
"""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from ssl import SSLContext
from typing import Any, Literal
from urllib.parse import unquote

import httpx

from streaming.relay.notice import NO_LINKS, Links, Notice, one_line
from streaming.text.visible_text import visible_value

READ_BYTES = 16_384
"""Bytes of an answer that are read at most."""

BODY_SECONDS = 1.0
"""Time for a body that only explains; a body read to its end leaves a reusable connection."""

CONNECT_SECONDS = 5.0
REASON_CHARACTERS = 300
MASK = "***"
SECRET_CHARACTERS = 4
"""Shorter values are not masked, or every `1` of a `?v=1` would be."""

RETRY_AFTER_MOST_SECONDS = 3_600.0
"""A longer Retry-After is a mistake: a page cannot wait for it."""

TOKEN_CHARACTERS = 16
"""A part of a URL's path of this length may be a token, as Feishu's is."""

Verdict = Literal["DELIVERED", "RETRY", "REFUSED", "BAD_KEY"]
"""RETRY: temporary (429, 5xx, no answer). REFUSED: this content never (other 4xx).
BAD_KEY: nothing until the key is corrected (401, 403, an unknown routing key)."""

logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each URL with its query at INFO


@cache
def _trusted_certificates() -> SSLContext:
    """Return one context for all receivers: reading the certificates takes 20 ms."""
    return httpx.create_ssl_context()


@dataclass(frozen=True)
class Answer:
    """The result of one attempt. `code` is the HTTP status, None without an answer.

    `body` is the begin of the answer, at most READ_BYTES, and `date` its header.
    """

    verdict: Verdict
    code: int | None
    reason: str
    retry_after_seconds: float | None = None
    body: bytes = field(default=b"", repr=False)
    date: str | None = None


@dataclass(frozen=True)
class Traits:
    """Properties of a receiver that decide when and how it is called.

    at_most          notices that one call takes
    min_interval_ms  the receiver's own limit between two calls
    is_leased        open incidents must be repeated, or they end there
    can_acknowledge  takes acknowledged notices
    is_quiet         gets the info alerts that no route selects
    """

    at_most: int = 1
    min_interval_ms: int = 0
    is_leased: bool = False
    can_acknowledge: bool = False
    is_quiet: bool = False


class Receiver:
    """One address. `send` blocks until the answer or the timeout; it never raises and never retries."""

    name: str
    traits = Traits()

    def send(self, notices: Sequence[Notice], now_ms: int) -> Answer:
        raise NotImplementedError

    def close(self) -> None:
        """End what is open."""


class AddressError(ValueError):
    """A receiver's address or key cannot be used. The message names it and the reason, without secrets."""


class _ConnectedError(Exception):
    """A connection is open, and nothing was sent."""


class HttpReceiver(Receiver):
    """One HTTP address, which gets one request at a time. Connections are kept until `close`.

    `token` is sent as a bearer; `secret` is the vendor's. No reason contains them, or the secret parts of `url`. A part
    of the answer may take `timeout_seconds`, all headers twice that; connecting, with DNS, at most CONNECT_SECONDS.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        token: str | None = None,
        secret: str | None = None,
        links: Links = NO_LINKS,
        timeout_seconds: float = 10.0,
    ) -> None:
        """Raises AddressError when `url` is not an http or https address with a host, or `token` no header's value."""
        self.name, self._secret, self._links = name, secret, links
        self._url = _parse(url)
        self.host = self._url.netloc.decode("ascii")
        token = (token or "").strip()
        if not (token.isascii() and token.isprintable()):
            raise AddressError("the token has a character that is not allowed in an HTTP header; use printable ASCII")
        self._headers = {"User-Agent": "balancewatch", "Accept-Encoding": "identity"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._secrets = _secrets_of(self._url, {secret or "", *token.split()[-1:]})
        self._read_seconds, self._total_seconds = timeout_seconds, 2 * timeout_seconds
        self._connect_seconds = min(CONNECT_SECONDS, timeout_seconds)
        self._lock = threading.Lock()
        self._runner: asyncio.Runner | None = None
        self._client: httpx.AsyncClient | None = None

    def post(
        self,
        body: bytes,
        now_ms: int,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        needs_body: bool = False,
    ) -> Answer:
        """POST `body` as JSON, with `params` added to the URL's own. Never raises, never retries.

        With `needs_body` the timeout of the body is that of the headers. `now_ms` is the wall clock, for Retry-After.
        """
        url = self._url.copy_merge_params(dict(params)) if params else self._url
        own = {"Content-Type": "application/json", **(headers or {})}
        try:
            with self._lock:
                self._runner = self._runner or asyncio.Runner()
                response, text = self._runner.run(self._exchange(url, body, own, needs_body))
        except Exception as error:  # the notice may not have arrived: retry
            return Answer("RETRY", None, f"no answer from {self.host}: {self._describe(error)}")
        verdict, reason = _classify(response.status_code)
        said = self.quote(text.decode("utf-8", "replace"))
        if said and verdict != "DELIVERED":
            reason = f"{reason}: {said}"
        later = retry_after_seconds(response.headers.get("Retry-After"), now_ms) if verdict == "RETRY" else None
        date = response.headers.get("Date")
        return Answer(verdict, response.status_code, f"{self.host} {reason}", later, body=text, date=date)

    async def _exchange(
        self, url: httpx.URL, body: bytes, headers: dict[str, str], needs_body: bool
    ) -> tuple[httpx.Response, bytes]:
        if self._client is None:
            timeout = httpx.Timeout(self._read_seconds, connect=self._connect_seconds)
            self._client = httpx.AsyncClient(
                verify=_trusted_certificates(), timeout=timeout, headers=self._headers, follow_redirects=False
            )
        async with asyncio.timeout(self._total_seconds):
            request = self._client.build_request("POST", url, content=body, headers=headers)
            response = await self._client.send(request, stream=True)
        text = b""
        with contextlib.suppress(TimeoutError, httpx.HTTPError, httpx.StreamError, OSError):
            async with asyncio.timeout(self._read_seconds if needs_body else BODY_SECONDS):
                async for chunk in response.aiter_raw():
                    text += chunk
                    if len(text) >= READ_BYTES:
                        break
        with contextlib.suppress(TimeoutError, httpx.HTTPError, OSError):
            async with asyncio.timeout(BODY_SECONDS):
                await response.aclose()
        return response, text[:READ_BYTES]

    def try_connection(self) -> str:
        """Open a connection as `post` does and send nothing; return why that fails, empty if it does not."""

        def stop_before_sending(event: str, info: Mapping[str, Any]) -> None:
            if event.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":  # to a proxy
                raise _ConnectedError

        try:
            with httpx.Client(verify=_trusted_certificates(), timeout=self._connect_seconds) as client:
                client.post(self._url, extensions={"trace": stop_before_sending})
        except _ConnectedError:
            pass
        except Exception as error:
            return f"no connection to {self.host}: {self._describe(error)}"
        return ""

    def _describe(self, error: Exception) -> str:
        match error:
            case httpx.ConnectTimeout():
                return f"not connected within {self._connect_seconds:g} s"
            case httpx.TimeoutException():
                return f"no data for {self._read_seconds:g} s"
            case TimeoutError():
                return f"not finished within {self._total_seconds:g} s"
            case httpx.ConnectError():
                return f"connection failed: {self.quote(str(error))}"
            case httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError():
                return "connection closed before the answer"
        return type(error).__name__

    def quote(self, text: str) -> str:
        """Return foreign text as one short line without the secrets of this address."""
        for secret in self._secrets:  # before the cut, which could leave a part of one
            text = text.replace(secret, MASK)
        return one_line(text, REASON_CHARACTERS)

    def close(self) -> None:
        """End the connections. Safe to call twice; a later `post` opens new ones."""
        with self._lock:
            if self._runner is not None:
                if self._client is not None:
                    self._runner.run(self._client.aclose())
                self._runner.close()
            self._client = self._runner = None


def json_bytes(payload: Any) -> bytes:
    r"""Return compact UTF-8 JSON. NaN becomes null, half a surrogate pair "?"; invisible characters are written out.

    All receivers encode with this.
    """
    text = json.dumps(payload, ensure_ascii=False, default=str, skipkeys=True)
    value = json.loads(text.encode("utf-8", "replace"), parse_constant=lambda _: None)
    return json.dumps(visible_value(value), ensure_ascii=False, separators=(",", ":")).encode()


def retry_after_seconds(value: str | None, now_ms: int) -> float | None:
    """Return Retry-After (RFC 9110: seconds, or a date) in seconds from now, at most an hour; None if unreadable."""
    if value is None:
        return None
    if value.strip().isdecimal():
        seconds = float(value.strip()[:9])
    else:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now_ms / 1000
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), RETRY_AFTER_MOST_SECONDS)


def _classify(code: int) -> tuple[Verdict, str]:
    """Classify as Alertmanager's Retrier does, and a wrong key apart. 408 is a proxy's timeout."""
    if 200 <= code < 300:
        return "DELIVERED", f"answered {code}"
    if code in {401, 403}:
        return "BAD_KEY", f"answered {code}: the key is invalid"
    if code in {408, 429} or code >= 500:
        return "RETRY", f"answered {code}"
    if 300 <= code < 400:
        return "REFUSED", f"answered {code}, a redirect, which is not followed; configure its target address"
    return "REFUSED", f"answered {code}"


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError):
        raise AddressError("the address is not a URL; use one like https://host/path") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        parts = f"{parsed.scheme or 'no scheme'}, host {parsed.host or 'missing'}"
        raise AddressError(f"the address must be http:// or https:// with a host; it has {parts}")
    return parsed


def _secrets_of(url: httpx.URL, given: set[str]) -> list[str]:
    """Return the secrets as written and decoded, longest first."""
    query = url.query.decode("ascii")
    path = [part for part in url.raw_path.decode("ascii").partition("?")[0].split("/") if len(part) >= TOKEN_CHARACTERS]
    user = [url.username, url.password, url.userinfo.decode("ascii")]
    parts = {*given, query, *(pair.partition("=")[2] for pair in query.split("&")), *path, *user}
    parts |= {unquote(part) for part in parts}
    return sorted((part for part in parts if len(part) >= SECRET_CHARACTERS), key=len, reverse=True)
