"""Why a query failed, in one sentence: lost messages, a full disk, an unreachable Kafka, or its own message."""

import re
import shutil
from pathlib import Path

from conf.location import is_store
from conf.settings import Settings
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.self_monitoring.data_loss import losses_of, sentence
from streaming.warehouse.table_store import why_not

_LOST = re.compile(r"data may have been lost|KAFKA_DATA_LOSS|OffsetOutOfRange", re.IGNORECASE)
_FULL = re.compile(r"no space left on device|os error 28|errno 28|disk quota exceeded", re.IGNORECASE)
_AWAY = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:TimeoutException|DisconnectException)|Failed to fetch offset"
)
_STORE = re.compile(r"Generic S3 error|obstore\.exceptions\.")
_SDK = re.compile(r"software\.amazon\.awssdk\.core\.exception\.SdkClientException")
_CAUSE = re.compile(r"(?:Caused by: |: )?[A-Za-z_][\w.$]*(?:Error|Exception|Interrupt)(?::|$)")

ROOM_BYTES = 16 << 20
"""A file system with less free space than this counts as full."""


def reason(name: str, error: BaseException, settings: Settings) -> str:
    """Return why the query `name` ended. `error` comes from Spark, py4j or deltalake, with traces in its text."""
    text = str(error).replace("\0", "")  # Spark quotes a file that a power cut filled with them
    if _FULL.search(text):
        return f"the query {name} failed: {full_disk(settings)}"
    if _LOST.search(text):
        try:
            _, losses = losses_of(name, settings)
        except KafkaUnreachableError:
            losses = []
        if losses:
            return f"{sentence(name, losses)} (Kafka deleted them while the query ran)"
    if is_store(settings.paths.warehouse) and _STORE.search(text):
        return f"the query {name} failed: {why_not(settings.paths.warehouse, text)}"
    if is_store(settings.paths.checkpoints) and _SDK.search(text):
        return f"the query {name} failed: {why_not(settings.paths.checkpoints, '', 'paths.checkpoints')}"
    if _AWAY.search(text):
        servers = settings.kafka.bootstrap_servers
        return f"the query {name} failed: kafka.bootstrap_servers = {servers!r} did not answer in time"
    return f"the query {name} failed: {_cause(text) or type(error).__name__}"


def full_disk(settings: Settings) -> str:
    """Return the error text for a full disk, naming the folder."""
    folders = {"paths.warehouse": settings.paths.warehouse, "paths.checkpoints": settings.paths.checkpoints}
    near = {key: Path(place) for key, place in folders.items() if not is_store(place)}
    full = [f"{key} = {path}" for key, path in near.items() if _free_bytes(path) < ROOM_BYTES]
    named = " and ".join(full) or "spark.local.dir or the temporary folder"
    return f"no space left on the device of {named}; free space and restart, no data is lost"


def is_full_disk(error: BaseException) -> bool:
    return _FULL.search(str(error)) is not None


def is_busy_machine(error: BaseException) -> bool:
    """Whether Spark gave up on a Python worker that took longer than 10 s to start, which no setting changes."""
    return "Python worker failed to connect back" in str(error)


def _free_bytes(path: Path) -> int:
    """Return the free bytes of the file system of `path`, or of its nearest existing folder."""
    path = path.expanduser().resolve()
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    return shutil.disk_usage(existing).free


def _cause(text: str) -> str:
    """Return the deepest cause of a Python or Java trace, else the first line, without Spark's plan."""
    lines = [line.strip() for line in text.partition("=== Streaming Query ===")[0].splitlines() if line.strip()]
    causes = [line for line in lines if _CAUSE.match(line)]
    cause = causes[-1] if causes else lines[0] if lines else ""
    return cause.removeprefix("Caused by: ").removeprefix(": ")[:500]
