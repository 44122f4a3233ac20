"""What a process writes on stderr: one JSON object a line whoever speaks, without secrets, or lines for people."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conf.settings import Settings
from streaming.cli import app
from streaming.logs import logs

ROOT = Path(__file__).parents[2]

SPEAKERS = """
import logging, sys, threading, warnings
import structlog
from conf.settings import Log
from streaming.logs.logs import set_up_logs
set_up_logs(Log(level="INFO", format=sys.argv[1]))
log = structlog.get_logger()
log.debug("not told")
log.info("ours", group="billing", token="hunter2", count=3)
log.info("of \\x1b[2J elsewhere", topic="a\\x1b]0;b\\x07\\x9bm")
logging.getLogger("deltalake").warning("a library, %s", "with arguments")
logging.getLogger("deltalake").info("not told")
logging.getLogger("kafka.conn").warning("not told")
logging.getLogger("py4j.clientserver").error("not told")
warnings.warn("an old function", DeprecationWarning, stacklevel=1)
try:
    raise ValueError("password=hunter2")
except ValueError:
    log.exception("caught")
    logging.getLogger("deltalake").exception("caught by a library")
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()
raise KeyError("nobody caught it")
"""


@cache
def said(form: str) -> str:
    """What a process that speaks in every way writes, in this form."""
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", SPEAKERS, form],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == ""
    assert done.returncode == 1
    return done.stderr


@pytest.fixture(autouse=True)
def _logs_as_usual() -> Iterator[None]:
    """What a command sets up here is for no later test."""
    yield
    logs.set_up_logs(Settings.load().log)


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in said("json").splitlines()]


def test_every_line_is_one_json_object_with_the_stable_fields_first(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        assert list(line)[:3] == ["timestamp", "level", "event"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line["timestamp"])


def test_who_speaks_in_what_level(lines: list[dict[str, Any]]) -> None:
    """Kafka's retries and py4j's calls are told by us in words of ours."""
    reported = [(line["level"], line["event"].partition("\n")[0], line.get("logger")) for line in lines]
    assert [(level, event, logger) for level, event, logger in reported if logger != "py.warnings"] == [
        ("info", "ours", None),
        ("info", "of \x1b[2J elsewhere", None),
        ("warning", "a library, with arguments", "deltalake"),
        ("error", "caught", None),
        ("error", "caught by a library", "deltalake"),
        ("error", "thread crashed", None),
        ("critical", "crashed", None),
    ]
    assert any("an old function" in event for _, event, logger in reported if logger == "py.warnings")


def test_an_exception_is_structured_and_has_no_variables(lines: list[dict[str, Any]]) -> None:
    thrown = {line["event"]: line["exception"][0] for line in lines if "exception" in line}
    assert {event: one["exc_type"] for event, one in thrown.items()} == {
        "caught": "ValueError",
        "caught by a library": "ValueError",
        "thread crashed": "ZeroDivisionError",
        "crashed": "KeyError",
    }
    assert all({"filename", "lineno", "name"} == set(frame) for one in thrown.values() for frame in one["frames"])


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_is_written(form: str) -> None:
    assert "hunter2" not in said(form).replace('raise ValueError("password=hunter2")', "")


def test_people_get_lines_and_a_trace() -> None:
    text = said("console")
    assert re.search(r"\[info +\] ours +count=3 group=billing token=\*\*\*", text)
    assert "ZeroDivisionError: division by zero" in text


def test_a_terminal_obeys_no_name_from_elsewhere() -> None:
    text = said("console")
    assert r"of \x1b[2J elsewhere" in text
    assert r"topic=a\x1b]0;b\x07\x9bm" in text
    assert not set(text) & {"\x1b", "\x07", "\x9b"}


@pytest.mark.parametrize(
    ("flags", "variable", "is_json"),
    [
        ([], "", False),
        (["--log-format", "json"], "", True),
        (["--log-format", "console"], "json", False),
        ([], "json", True),
    ],
)
def test_the_last_words_are_json_where_a_flag_or_the_environment_asked_for_json(
    flags: list[str], variable: str, is_json: bool, tmp_path: Path
) -> None:
    environment = {"BALANCEWATCH_LOG__FORMAT": variable} if variable else {}
    result = CliRunner().invoke(app, [*flags, "canary", "--warehouse", str(tmp_path)], env=environment)
    assert result.exit_code == 1
    if is_json:
        said = json.loads(result.stderr)
        assert said["event"] == "command failed"
        assert "no table alert_deliveries found" in said["reason"]
    else:
        assert result.stderr.startswith("error: paths.warehouse")


def test_a_level_that_is_none_is_refused_with_the_key() -> None:
    result = CliRunner().invoke(app, ["--log-level", "loud", "canary"])
    assert result.exit_code == 2
    assert result.stderr == "error: log.level = 'LOUD': input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'\n"


def test_warnings_and_errors_are_counted_for_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(logs, "_counters", [])
    logs.count_lines(heard.append)
    for level in ("info", "warning", "error", "critical", "debug"):
        logs._count(None, level, {"level": level})
    logs.count_lines(None)
    logs._count(None, "error", {"level": "error"})
    assert heard == ["warning", "error", "error"]
