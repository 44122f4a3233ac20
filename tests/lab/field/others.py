"""What RocketMQ's own tools say of the same minutes: mqadmin, by its own jar, and what of it names a trouble."""

import json
import re
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

RECORD = "others.json"

_LOCK = threading.Lock()
"""One mqadmin at a time: each is a JVM."""


@dataclass(frozen=True)
class Said:
    """What a tool printed, and the sentence of it that a person would go by; "" where nothing is wrong by it."""

    command: str
    complaint: str
    printed: str


def ask_others(mqadmin: Callable[..., str], groups: list[str], folder: Path) -> list[Said]:
    """Ask all three, of each group; kept in the folder."""
    said: list[Said] = []
    with _LOCK:
        for group in groups:
            printed = mqadmin("consumerStatus", "-g", group)
            said.append(Said(f"consumerStatus {group}", complaint_of_status(printed), printed))
            printed = mqadmin("consumerProgress", "-g", group)
            said.append(Said(f"consumerProgress {group}", complaint_of_progress(printed), printed))
        printed = mqadmin("clusterList")
        said.append(Said("clusterList", "", printed))
    (folder / RECORD).write_text(json.dumps([asdict(one) for one in said], indent=1) + "\n")
    return said


def read_others(folder: Path) -> list[Said]:
    """What was kept; nothing where nobody was asked."""
    path = folder / RECORD
    return [Said(**one) for one in json.loads(path.read_text())] if path.exists() else []


def complaint_of_status(printed: str) -> str:
    """Of consumerStatus: what stands there instead of "Rebalance OK", of subscriptions, of queues, of who is there."""
    found = re.findall(
        r"^.*(?:[Nn]ot (?:online|OK)|not same|not locked|can.t lock|unlock|blocked|CODE: \d+).*$", printed, re.MULTILINE
    )
    return _short(found)


def complaint_of_progress(printed: str) -> str:
    """Of consumerProgress: its "Diff Total", where it is not 0. It says of no queue that nobody consumes it."""
    found = re.search(r"Diff Total: (\d+)", printed) or re.search(r"(CODE: \d+.*)", printed)
    return "" if found is None or found[1] == "0" else found[0][:120]


def _short(lines: list[str]) -> str:
    return "; ".join(dict.fromkeys(line.strip()[:120] for line in lines[:3]))
