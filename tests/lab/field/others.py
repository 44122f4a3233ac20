"""What RocketMQ's own tools say of the same minutes: mqadmin, by its own jar, and what of it names a trouble."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

RECORD = "others.json"

_LOCK = threading.Lock()
"""One mqadmin at a time: each is a JVM."""

COMPLAINTS = {
    "consumerStatus": r"^.*(?:[Nn]ot (?:online|OK)|not same|not locked|can.t lock|unlock|blocked|CODE: \d+).*$",
    "consumerProgress": r"Diff Total: [1-9]\d*|CODE: \d+.*",
}
"""Tool to the lines that a person would go by: those of consumerStatus in place of "Rebalance OK", and the backlog of
consumerProgress, which says of no queue that nobody consumes it."""


def ask_others(mqadmin: Callable[..., str], groups: list[str], folder: Path) -> None:
    """Ask both of each group, and clusterList; kept in the folder."""
    questions = [(tool, "-g", group) for group in groups for tool in COMPLAINTS]
    with _LOCK:
        said = [{"command": f"{asked[0]} {asked[2]}", "printed": mqadmin(*asked)} for asked in questions]
        said.append({"command": "clusterList", "printed": mqadmin("clusterList")})
    (folder / RECORD).write_text(json.dumps(said, indent=1) + "\n")


def read_others(folder: Path) -> dict[str, str]:
    """Each command that was asked to its complaint; nothing where nobody was asked."""
    path = folder / RECORD
    said = json.loads(path.read_text()) if path.exists() else []
    return {one["command"]: complaint_of(one["command"].partition(" ")[0], one["printed"]) for one in said}


def complaint_of(tool: str, printed: str) -> str:
    """Up to three lines of what the tool printed; "" where nothing is wrong by it."""
    found = re.findall(COMPLAINTS[tool], printed, re.MULTILINE) if tool in COMPLAINTS else []
    return "; ".join(dict.fromkeys(line.strip()[:120] for line in found[:3]))
