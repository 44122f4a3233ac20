"""The `[paths]` of the settings: folders, and tables that may be in a bucket."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, PlainValidator
from pydantic_core import PydanticCustomError

from conf.location import Location
from conf.section import Section

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_STORE = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w.=-]+)*", re.ASCII)


def _is_no_address(value: object) -> object:
    if not str(value):
        raise PydanticCustomError("path", "is empty; give a folder")
    if _ADDRESS.match(str(value)):
        raise PydanticCustomError("path", "is a URL; give a folder, on a cluster one that all machines share")
    return value


def _location(value: object) -> Location:
    """Return a folder or a bucket's URL. Other URLs may hold a secret and are never shown."""
    if not isinstance(value, str | Path):
        raise PydanticCustomError("path", "must be text: a folder, or s3://bucket/prefix")
    text = str(value)
    if not _ADDRESS.match(text):
        return Path(str(_is_no_address(value)))
    if _STORE.fullmatch(text.rstrip("/")) and not {".", ".."} & set(text.split("/")):
        return text.rstrip("/")
    if re.match(r"s3:/", text, re.IGNORECASE):
        raise PydanticCustomError(
            "address",
            "is not a bucket's URL; give s3://bucket/prefix with letters, digits and . _ = - only; put credentials and "
            "endpoint in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL)",
        )
    raise PydanticCustomError("address", "is a URL; give a folder, or s3://bucket/prefix")


Folder = Annotated[Path, BeforeValidator(_is_no_address)]
FolderOrStore = Annotated[Path | str, PlainValidator(_location)]


class Paths(Section):
    """All of `[paths]`."""

    warehouse: FolderOrStore
    checkpoints: Folder
    jars: Folder
