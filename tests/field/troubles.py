"""Troubles: what is done to whom, verb by verb, each written down with when it began and ended."""

import inspect
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from tests.field import client_verbs, cluster_verbs
from tests.field.stage_parts import VERBS, Stage

LOG = "troubles.jsonl"


class TroubleError(ValueError):
    """An unknown verb, or an argument it does not take. The message names both."""


VERB_MODULES = (client_verbs, cluster_verbs)
"""Where VERBS come from."""

_WRITING = threading.Lock()


def check_trouble(do: str, arguments: Mapping[str, Any]) -> None:
    """Raises TroubleError for what no verb is, or does not take, or lacks."""
    if do not in VERBS:
        raise TroubleError(f"trouble {do!r} is not one of {', '.join(sorted(VERBS))}")
    try:
        inspect.signature(VERBS[do]).bind(None, **arguments)
    except TypeError as error:
        raise TroubleError(f"trouble {do!r}: {error}") from None


def make_trouble(stage: Stage, do: str, **arguments: Any) -> None:
    """Return when it is done, and written to the stage's LOG; also where it failed. Raises TroubleError."""
    check_trouble(do, arguments)
    begun = _now_ms()
    failure: dict[str, str] = {}
    try:
        VERBS[do](stage, **arguments)
    except BaseException as error:
        failure = {"failed": f"{type(error).__name__}: {error}"}
        raise
    finally:
        line = json.dumps({"t": begun, "ended": _now_ms(), "do": do, **arguments, **failure})
        with _WRITING, (stage.folder / LOG).open("a") as log:
            log.write(line + "\n")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
