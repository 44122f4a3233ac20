"""Tables full of names that would write to a terminal: nothing that any command prints of them is obeyed or unseen."""

import json
import re
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from schemas.events import PULLS
from streaming.cli import app
from streaming.simulator.scenario import load_scenario
from streaming.simulator.simulation import Simulation
from streaming.warehouse.writer import append_rows
from tests.history.warehouse_stage import START_MS, alert, assignment, delivery, fault, member
from tests.support.offenders import assert_none
from tests.support.row_writer import RowWriter
from tests.support.tiers import in_proof

pytestmark = pytest.mark.real

EVIL = "\x1b[2J\x1b]0;t\x07\x9b1A\u202egnp\u2066\u200b\u200d\u2028\ufeff\U000e0041\x7f\r[red]<b>"
"""Clears the screen, names the window, rings, goes up; turns the direction; is not seen; ends a line."""

GROUP, TOPIC, BROKER, CLIENT, OWNER = (f"{name}{EVIL}" for name in ("group", "topic", "broker", "client", "owner"))
ID = "a1b2-1"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Rich's own; EVIL has none."""

NAMES: dict[str, Any] = {"cluster": f"c{EVIL}", "consumer_group": GROUP, "topic": TOPIC}
AT = {"changed_at": START_MS}


def hostile_rows() -> dict[str, list[dict[str, Any]]]:
    words = {"summary": f"Nobody consumes {EVIL}", "advice": EVIL, "cause": EVIL, "inhibited_by": None}
    whole = {**NAMES, **words, "broker_name": BROKER, "client_id": CLIENT, "queues": [f"{BROKER}:0"]}
    whole |= {"evidence": json.dumps({EVIL: EVIL}), "labels": json.dumps({"client_id": CLIENT})}
    of_queue = {**NAMES, "broker_name": BROKER}
    message = {"topic": EVIL, "partition": 0, "ingest_time": START_MS}
    raw = json.dumps({"client_id": CLIENT, EVIL: EVIL}, ensure_ascii=False).encode()
    return {
        "alerts": [alert("a1b2", "FIRING", 5, **whole), alert("c3d4", "FIRING", 6, **{**whole, "inhibited_by": EVIL})],
        "assignments": [
            assignment(0, "OK", 0, **of_queue, planned_owner=CLIENT, observed_owners=[CLIENT]),
            assignment(0, "UNOWNED", 1, **of_queue, planned_owner=CLIENT, observed_owners=[]),
        ],
        "memberships": [
            member(CLIENT, "JOINED", 0, **{**NAMES, "broker_name": BROKER, "topics": [TOPIC], "client_addr": EVIL})
            | {"language": EVIL, "client_version": EVIL, "topic": None}
        ],
        "fault_items": [
            fault(CLIENT, 0, available=False, cluster=EVIL, broker_name=BROKER, client_version=EVIL),
        ],
        "broker_health": [
            {"cluster": EVIL, "broker_name": BROKER, "unavailable_producers": 1, "producers": 1, **AT},
        ],
        "quarantine": [
            {**message, "offset": 0, "raw": raw, "reasons": [f"wrong_type: {EVIL}"]},
            {**message, "offset": 1, "raw": EVIL.encode(), "reasons": [f"not_json: {EVIL}"], "topic": PULLS},
        ],
        "alert_deliveries": [delivery("a1b2", "REFUSED", 7, receiver=EVIL, reason=EVIL, route=EVIL, code=400)],
        "silences": [
            {"silence_id": "0011aabb", "matchers": json.dumps({"cluster": [EVIL]}), "created_by": OWNER,
             "comment": EVIL, "starts_at": START_MS, "ends_at": START_MS * 2, **AT},
        ],
        "acknowledgements": [
            {"incident_id": ID, "acknowledged_by": OWNER, "note": EVIL, "acknowledged_at": START_MS + 9_000},
        ],
        "quality": [
            {"suite": EVIL, "expectation": EVIL, "success": False, "evaluated": 1, "unexpected": 1,
             "severity": "warning", "description": EVIL, "observed": [EVIL], "sample_offsets": [f"{EVIL}-0@1"],
             "topic": EVIL, "offsets": "{}", "validated_at": START_MS},
        ],
        "repairs": [
            {**message, "offset": 0, "action": "REPLAYED", "owner": OWNER, "value": raw, **AT},
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile")
    rows = {name: [_known(row) for row in of_table] for name, of_table in hostile_rows().items()}
    append_rows(RowWriter(root), rows, "app", 0)
    return root


@pytest.fixture
def warehouse(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path, dirs_exist_ok=True)


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None or name == "inhibited_by"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twins in a hostile group, recorded."""
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    events = Simulation(load_scenario("twins"), 1, START_MS).events(200_000)
    lines = (json.dumps({"topic": topic, "event": event}) for topic, event in events)
    text = "\n".join(lines).replace('"billing"', json.dumps(GROUP)).replace('"orders"', json.dumps(TOPIC))
    path.write_text(text)
    return path


IN_ALL_FORMATS: list[list[str]] = [
    ["alerts"],
    ["alerts", "--current"],
    ["alerts", "--history"],
    ["clusters"],
    ["groups"],
    ["brokers"],
    ["faults"],
    ["assignments"],
    ["members"],
    ["deliveries"],
    ["owner", TOPIC, f"{BROKER}:0", "--group", "group*"],
    ["sql", f'SELECT *, alerts.cluster AS "{EVIL}" FROM alerts, quarantine, assignments'],
    ["whatif", "--group", GROUP, "--topic", TOPIC],
    ["whatif", "--group", GROUP, "--topic", TOPIC, "--twin", CLIENT],
    ["relay", "--dry-run"],
    ["silence", "list"],
    ["silence", "add", "--match", f"cluster={EVIL}*", "--for", "1h", "--owner", OWNER, "--reason", EVIL],
    ["silence", "add", "--match", "cluster=*", "--for", "1h", "--owner", OWNER, "--reason", EVIL, "--dry-run"],
    ["quality"],
    ["quarantine"],
    ["explain", ID],
    ["alerts", "rules", ID],
    ["maintain", "--dry-run"],
]
PLAIN: list[list[str]] = [
    ["ack", ID, "--owner", OWNER, "--note", EVIL],
    ["silence", "end", "0011aabb"],
    ["quarantine", "show", EVIL, "0", "0"],
    ["quarantine", "show", PULLS, "0", "1"],
    ["relay", "--once"],
    ["status"],
    ["check"],
    ["check", "--connect"],
    ["oncall", "test", "log"],
    ["forget", "--cluster", f"c{EVIL}", "--group", GROUP, "--owner", OWNER, "--reason", EVIL, "--dry-run"],
]
WRONG: list[list[str]] = [
    ["forget", "--cluster", EVIL, "--broker", TOPIC, "--owner", OWNER, "--reason", EVIL, "--dry-run"],
    ["quarantine", "replay", "--topic", "*", "--dry-run"],
    ["quarantine", "replay", EVIL, "0", "0", "--set", "a=1", "--owner", OWNER, "--dry-run"],
    [EVIL],
    ["alerts", f"--{EVIL}"],
    ["alerts", "--limit", EVIL],
    ["alerts", "--group", EVIL, "--format", EVIL],
    ["alerts", "--since", EVIL],
    ["alerts", "--state", EVIL],
    ["owner", TOPIC, EVIL],
    ["owner", TOPIC, f"{EVIL}:1"],
    ["explain", EVIL],
    ["alerts", EVIL],
    ["alerts", "rules", EVIL],
    ["alerts", "rules", f"{EVIL}-1"],
    ["alerts", "rules", "watchdog", "--severity", EVIL],
    ["check", "--format", EVIL],
    ["oncall", "test", EVIL],
    ["ack", EVIL, "--owner", OWNER, "--note", "n"],
    ["silence", "end", EVIL],
    ["silence", "add", "--match", EVIL, "--for", "1h", "--owner", OWNER, "--reason", EVIL],
    ["sql", f"SELECT {EVIL}"],
    ["whatif", "--group", EVIL, "--topic", EVIL],
    ["whatif", "--group", GROUP, "--topic", TOPIC, "--twin", EVIL],
    ["maintain", "--table", EVIL],
    ["quarantine", "show", EVIL, "0", "7"],
    ["quarantine", "replay", EVIL, "0", "0", "--set", EVIL, "--owner", OWNER],
]
"""None of these can be done; the refusal repeats what was typed, or what is there."""


SERVING = {"demo", "run", "kafka", "collect", "simulate", "board", "mcp", "canary"}
"""They need Kafka, RocketMQ or a browser, or show figures alone; what they print goes by the same functions."""


def calls(formats: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    for arguments in IN_ALL_FORMATS:
        for format_ in formats:
            if format_ != "csv" or not {"explain", "rules", "maintain"} & {*arguments[:2]}:
                yield [*arguments, "--format", format_], format_
    for arguments in (*(PLAIN if "table" in formats else ()), *WRONG):
        yield arguments, "table"


def unseen(text: str, format_: str) -> str:
    """What is in it that a terminal obeys or that nobody sees, but line ends and Rich's colours."""
    known = COLOURS.sub("", text.replace("\r\n", "\n") if format_ == "csv" else text)
    return "".join(
        sorted(
            {one for one in known if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and one not in "\n\t"}
        )
    )


TABLES, MACHINES = ("table",), ("json", "csv")


@pytest.mark.parametrize(
    ("where", "formats"),
    [
        ("a terminal", TABLES),
        ("a pipe", MACHINES),
        *in_proof([("a terminal", MACHINES), ("a pipe", TABLES)]),
    ],
)
def test_no_command_prints_what_is_obeyed_or_unseen(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, where: str, formats: Sequence[str]
) -> None:
    """On a terminal with colours, and logs for people; in a pipe, and logs as JSON."""
    monkeypatch.setenv("BALANCEWATCH_LOG__FORMAT", "console" if where == "a terminal" else "auto")
    if where == "a terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")
    offenders, shown = [], 0
    for arguments, format_ in calls(formats):
        is_of_tables = arguments[0] not in (EVIL, "oncall")
        result = CliRunner().invoke(app, [*arguments, *(["--warehouse", str(warehouse)] if is_of_tables else [])])
        for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
            if bad := unseen(text, format_):
                offenders.append(f"{arguments!r}: {bad!r} on {name}")
            shown += text.count("gnp")
        if arguments not in (*WRONG, ["status"]) and result.exit_code:
            offenders.append(f"{arguments!r} ended with {result.exit_code}: {result.stderr[-500:]!r}")
        if result.exception and not isinstance(result.exception, SystemExit):
            offenders.append(f"{arguments!r} raised {result.exception!r}")
    assert_none(offenders)
    assert shown > 100, "the names are shown, written out"


def test_every_command_is_called_here() -> None:
    commands = getattr(get_command(app), "commands")  # noqa: B009  # Typer keeps the type of its groups to itself
    called = {arguments[0] for arguments in (*IN_ALL_FORMATS, *PLAIN)} | {"replay"}
    assert set(commands) - called - SERVING == set()


def test_a_replay_of_hostile_names_prints_none(warehouse: Path, log: Path) -> None:
    offenders, span = [], ["--since", "2025-06-15T15:06:00Z", "--until", "2025-06-15T15:12:00Z", "--events", str(log)]
    for more in ([], ["--all"]):
        for format_ in ("table", "json", "csv"):
            arguments = ["replay", *span, *more, "--format", format_, "--warehouse", str(warehouse)]
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
            assert "group" in result.stdout
            if bad := unseen(result.stdout, format_) + unseen(result.stderr, "table"):
                offenders.append(f"{arguments!r}: {bad!r}")
    assert_none(offenders)


def test_json_says_the_names_as_they_are(warehouse: Path) -> None:
    result = CliRunner().invoke(app, ["alerts", "--format", "json", "--warehouse", str(warehouse)])
    assert {row["client_id"] for row in json.loads(result.stdout)} == {CLIENT}
