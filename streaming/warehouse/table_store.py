"""Where files of tables are, a folder or a prefix of an object store, behind the same few calls.

A file that is written here is on the disk when the call returns: its content and its name are synced, so that a power
cut loses neither. A store answers only then, too.

Credentials and endpoint of a store come from the environment alone (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and the like),
which delta-rs reads by itself too.
"""

import contextlib
import os
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from conf.location import Location, is_store
from streaming.system.known_error import BalancewatchError

REACH_PATIENCE = timedelta(seconds=5)
"""Time limit of each of at most three attempts to reach a bucket at a start."""

_CREDENTIALS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if they are temporary"

_KINDS = (
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
    (
        r"NoSuchBucket|404 ",
        "bucket {bucket} does not exist at {endpoint}; create it, or check AWS_ENDPOINT_URL and AWS_REGION",
    ),
)


class StoreUnreachableError(BalancewatchError):
    """The object store of the tables does not work. The message names the setting and the variable."""


def reach(location: Location, key: str = "paths.warehouse") -> None:
    """Check access to the object store within seconds; do nothing for a folder. Raises StoreUnreachableError."""
    if not is_store(location):
        return
    address = endpoint_url()
    if address and not re.match(r"https?://[^/]", address):
        raise StoreUnreachableError(f"{key} = {str(location)!r}: AWS_ENDPOINT_URL must begin with http:// or https://")
    try:
        next(iter(obstore.list(store_of(location, REACH_PATIENCE), chunk_size=1)), None)
    except (BaseError, OSError, ValueError) as error:
        raise StoreUnreachableError(why_not(location, f"{type(error).__name__} {error}", key)) from None


def why_not(location: Location, said: str, key: str = "paths.warehouse") -> str:
    """Return the error text for a message of the store's client; `key` is the setting of the location."""
    bucket = urlsplit(str(location)).netloc
    found = next((words for pattern, words in _KINDS if re.search(pattern, said)), None)
    words = found or "{endpoint} does not answer; check AWS_ENDPOINT_URL and the network"
    return f"{key} = {str(location)!r}: {words.format(bucket=bucket, endpoint=_endpoint())}"


def endpoint_url() -> str:
    """Return the address of the environment; empty for Amazon S3."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _endpoint() -> str:
    """Without a user and a password, which an address may hold."""
    try:
        parts = urlsplit(endpoint_url())
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}" if parts.hostname else "S3"
    except ValueError:
        return "AWS_ENDPOINT_URL"


PATIENCE = timedelta(seconds=120)
"""How long a call to a store is tried again, where it is away for a moment."""


@dataclass(frozen=True)
class Found:
    """A file by its path from where it was looked for, and when it was written, in seconds."""

    path: str
    size: int
    at: float


def store_of(location: Location, patience: timedelta = PATIENCE) -> ObjectStore:
    """Return the store whose root is that existing folder, or that address, whose calls fail after `patience`."""
    if not is_store(location):
        return LocalStore(Path(location))
    environment = ((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    return _remote(str(location), patience, tuple(sorted(environment)))


def read_file(location: Location, path: str) -> tuple[bytes, datetime]:
    """Content and time of writing. Raises FileNotFoundError."""
    if not is_store(location) and not Path(location).is_dir():
        raise FileNotFoundError(location)
    found = obstore.get(store_of(location), path)
    return bytes(found.bytes()), found.meta["last_modified"]


CONFLICT_TRIES, CONFLICT_SECONDS = 100, 0.05
"""A store answers 409 while another request for the same name is in flight: tries, and the pause between two."""


def write_file(location: Location, path: str, content: bytes, *, is_synced: bool = True) -> None:
    """Write a file whose name no other process uses. The folder must exist: a table that was moved is not begun anew.

    With `is_synced` it survives a power cut. Raises FileNotFoundError for a folder that is gone.
    """
    if is_store(location):
        _put(location, path, content, is_new=False)
        return
    _write(Path(location) / path, content, is_synced=is_synced)
    if is_synced:
        sync_path((Path(location) / path).parent)


def create_file(location: Location, path: str, content: bytes, *, is_synced: bool = True) -> None:
    """Create a file at once with all its content. Raises FileExistsError, FileNotFoundError as `write_file`."""
    if is_store(location):
        _put(location, path, content, is_new=True)
        return
    target = Path(location) / path
    unnamed = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")  # readers of a log ignore such names
    try:
        _write(unnamed, content, is_synced=is_synced)
        os.link(unnamed, target)
    finally:
        unnamed.unlink(missing_ok=True)
    if is_synced:
        sync_path(target.parent)


def _put(location: Location, path: str, content: bytes, *, is_new: bool) -> None:
    """Put an object; repeat it while the store answers 409. Raises FileExistsError for a new one that is there."""
    store = store_of(location)
    for _ in range(CONFLICT_TRIES):
        try:
            obstore.put(store, path, content, mode="create" if is_new else "overwrite")
        except AlreadyExistsError as error:
            with contextlib.suppress(FileNotFoundError):  # the other request failed
                obstore.head(store, path)
                if is_new:
                    raise FileExistsError(path) from error
        else:
            return
        time.sleep(CONFLICT_SECONDS)
    raise StoreUnreachableError(f"{location}/{path}: the store answers 409, although no other request is in flight")


def _write(path: Path, content: bytes, *, is_synced: bool) -> None:
    """Create the file; a failed write, such as on a full disk, leaves none."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def sync_path(path: Path) -> None:
    """Write a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def list_files(location: Location, prefix: str = "") -> Iterator[Found]:
    """Yield all files under the prefix, in the order of their names on a store alone."""
    for batch in obstore.list(store_of(location), prefix):
        for one in batch:
            yield Found(one["path"], one["size"], one["last_modified"].timestamp())


def list_folder(location: Location, folder: str) -> list[Found]:
    """The files of one folder, without those of folders in it, by their names."""
    if is_store(location):
        found = [file for file in list_files(location, folder) if file.path.count("/") == folder.count("/") + 1]
    else:  # ten times as fast as the store's client, for logs of ten thousand commits
        with os.scandir(Path(location) / folder) as entries:
            stats = [
                (entry.name, entry.stat(follow_symlinks=False))
                for entry in entries
                if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
            ]
        found = [Found(f"{folder}/{name}", status.st_size, status.st_mtime) for name, status in stats]
    return sorted(found, key=attrgetter("path"))


@lru_cache(maxsize=64)
def _remote(address: Any, patience: timedelta, environment: tuple[tuple[str, str], ...]) -> ObjectStore:
    """Kept, for its open connections; another where the environment is."""
    seconds = patience.total_seconds()
    client: dict[str, Any] = {"connect_timeout": f"{min(5.0, seconds)}s", "timeout": f"{min(60.0, seconds)}s"}
    if dict(environment).get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes"):
        client["allow_http"] = True  # what the environment says of the client is not read beside what is given here
    retries: dict[str, Any] = {"max_retries": 10 if patience >= PATIENCE else 2, "retry_timeout": patience}
    return from_url(str(address), client_options=client, retry_config=retries)  # type: ignore[call-overload, no-any-return]  # options of our own names
