"""Whether the tables' store can be worked with: asked once at a start, and what is wrong said in a sentence.

No sentence has a credential in it: the store's own answer is only looked at for what kind of refusal it is.
"""

import os
import re
from datetime import timedelta
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError

from conf.location import Location, is_store
from streaming.system.known_error import BalancewatchError
from streaming.warehouse.table_store import impatient_store

PATIENCE = timedelta(seconds=5)
"""Of each attempt, of which there are three at the most."""

_CREDENTIALS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if they are temporary"

_KINDS = (
    (
        r"NoSuchBucket",
        "bucket {bucket} does not exist at {endpoint}; create it, or check AWS_ENDPOINT_URL and AWS_REGION",
    ),
    (
        r"/latest/api/token|/latest/meta-data|169\.254\.170\.2|[Mm]issing ?[Cc]redentials"
        r"|CredentialsError|MissingSecretAccessKey|MissingAccessKeyId"
        r"|Missing (Secret)?AccessKey",
        f"no credentials found; set {_CREDENTIALS}",
    ),
    (
        r"builder error|URL scheme is not allowed",
        "{endpoint} is not allowed as an address; set AWS_ALLOW_HTTP=true for http://, or check AWS_ENDPOINT_URL",
    ),
    (
        r"PermanentRedirect|AuthorizationHeaderMalformed|301 Moved|missing region|Received redirect",
        "bucket {bucket} is in another region; set AWS_REGION",
    ),
    (
        r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|401 |403 |Unauthenticated"
        r"|PermissionDenied|UnauthenticatedError",
        f"{{endpoint}} denies access to bucket {{bucket}}; check {_CREDENTIALS}, and their permissions",
    ),
    (r"404 ", "bucket {bucket} does not exist at {endpoint}; check AWS_ENDPOINT_URL and AWS_REGION"),
)


class StoreUnreachableError(BalancewatchError):
    """The object store of the tables does not work. The message names the setting and the variable."""


def reach(warehouse: Location) -> None:
    """Check access to the object store within seconds; do nothing for a folder. Raises StoreUnreachableError."""
    if not is_store(warehouse):
        return
    address = _address()
    if address and not re.match(r"https?://[^/]", address):
        raise StoreUnreachableError(
            f"paths.warehouse = {str(warehouse)!r}: AWS_ENDPOINT_URL must begin with http:// or https://"
        )
    try:
        next(iter(obstore.list(impatient_store(warehouse, PATIENCE), chunk_size=1)), None)
    except (BaseError, OSError, ValueError) as error:
        raise StoreUnreachableError(why_not(warehouse, f"{type(error).__name__} {error}")) from None


def why_not(warehouse: Location, said: str) -> str:
    """Return the error text for a message of the store's client."""
    bucket = urlsplit(str(warehouse)).netloc
    found = next((words for pattern, words in _KINDS if re.search(pattern, said)), None)
    words = found or "{endpoint} does not answer; check AWS_ENDPOINT_URL and the network"
    return f"paths.warehouse = {str(warehouse)!r}: {words.format(bucket=bucket, endpoint=_endpoint())}"


def _address() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _endpoint() -> str:
    """Without a user and a password, which an address may hold."""
    try:
        parts = urlsplit(_address())
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}" if parts.hostname else "S3"
    except ValueError:
        return "AWS_ENDPOINT_URL"
