"""What people read in terminals of any width: whole words, in a table or in a block a record."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.history.warehouse_stage import alert, assignment, delivery, fault, member, run, write

CLIENT = "10.20.0.13@4688#81203344121455"
COMMANDS = ("alerts --history", "assignments", "members", "faults", "deliveries")
SQL = "SELECT * FROM memberships"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = {"consumer_group": "order-service", "cluster": "production-eu"}
    reason = "explained by broker_isolated c87a8d8867cd0128-1789000200000 of cluster production-eu"
    return write(
        tmp_path_factory.mktemp("warehouse"),
        {
            "alerts": [alert("c87a8d8867cd0128", "FIRING", 5, **names)],
            "assignments": [assignment(0, "UNOWNED", 1, planned_owner=CLIENT, observed_owners=[CLIENT], **names)],
            "memberships": [member(CLIENT, "JOINED", 0, **names), member("A@1", "EXPIRED", 0, **names)],
            "fault_items": [fault(CLIENT, 0, available=False)],
            "alert_deliveries": [
                delivery("c87a8d8867cd0128", outcome, 7, reason=reason) for outcome in ("INHIBITED", "LIMITED")
            ],
        },
    )


def words(text: str) -> set[str]:
    """Of cells, labels and headings."""
    return {word.rstrip(":") for word in re.sub(r"[│┃]", " ", text).split() if not re.match(r"[━─┏┡└├]", word)}


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_word_is_broken_however_wide_the_terminal(
    command: str, width: int, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    whole = words(run(warehouse, *command.split()).stdout)
    monkeypatch.setenv("COLUMNS", str(width))
    reported = run(warehouse, *command.split()).stdout
    assert max(map(len, reported.splitlines())) <= width
    assert words(reported) == whole


def test_a_narrow_terminal_shows_blocks_and_a_wide_one_the_table(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    reported = run(warehouse, "members").stdout
    assert reported.endswith(
        "\n\n"
        "changed at, UTC:      2025-06-15 15:06:40\n"
        "change:               EXPIRED\n"
        "member:               A@1 at A:5\n"
        "group, broker's view: order-service, broker-a of production-eu\n"
        "subscribes:           orders\n"
        "runs:                 JAVA 5.3.3 AVG\n"
    )
    assert f"member:               {CLIENT} at 10.20.0.13:5\n" in reported
    monkeypatch.setenv("COLUMNS", "200")
    assert f"│ {CLIENT} at 10.20.0.13:5 │" in run(warehouse, "members").stdout


@pytest.mark.parametrize("width", [60, 80])
def test_a_name_longer_than_the_terminal_is_read_on_from_line_to_line(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "-".join(["payments", "reconciliation"] * 10)
    write(tmp_path, {"memberships": [member("A@1", "JOINED", 0, consumer_group=name)]})
    monkeypatch.setenv("COLUMNS", str(width))
    reported = run(tmp_path, "members").stdout
    lines = [line.strip() for line in reported.splitlines() if "payments" in line or "reconciliation" in line]
    assert max(map(len, reported.splitlines())) <= width
    assert "".join(lines).startswith(name)
    assert all(line.endswith("-") for line in lines[:-1])


@pytest.mark.parametrize("arguments", [("members",), ("sql", SQL)])
def test_a_terminal_is_measured_and_a_pipe_gets_the_table_a_line_a_row(
    arguments: tuple[str, ...], warehouse: Path
) -> None:
    """Of 80 columns. The pipe too where stdin is a terminal."""
    left_out = {"COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "streaming.cli", *arguments, "--warehouse", str(warehouse)]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    piped = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    reported = b""
    try:
        while chunk := os.read(ours, 4096):
            reported += chunk
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(ours)
    rows = [line for line in piped.communicate(timeout=60)[0].decode().splitlines() if CLIENT in line or "A@1" in line]
    assert (process.wait(60), piped.wait(60)) == (0, 0)
    text = re.sub(r"\x1b\[[0-9;]*m", "", reported.decode()).replace("\r\n", "\n")
    assert "│" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert {CLIENT, "EXPIRED"} <= words(text)
    assert len(rows) == 2
    assert sum(CLIENT in row and "JOINED" in row for row in rows) == 1
