"""What the JVM and its workers print, as events of our own log."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyspark
import pytest

from streaming.logs import jvm_lines
from streaming.logs.jvm_lines import JvmLines, read_events, say_lines
from streaming.spark.jars import LOG4J
from tests.support.java_sources import JVM

CHATTER = """
WARNING: Using incubator modules: jdk.incubator.vector
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
Starting Streaming TransformWithStateInPandas Python worker.

Streaming TransformWithStateInPandas Python worker Starting execution of UDF: <bound method>.
"""

TRACE = ["Traceback (most recent call last):", '  File "worker.py", line 1', "KeyError: 'x'"]
LOG4J_LINE = (
    '{"level":"error","logger":"org.apache.spark.Thing","event":"no \\"disk\\"","exception":"java.io.IOException"}'
)

JAVA = """
public class Speak { public static void main(String[] given) {
  var log = org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.Thing");
  log.warn("not told");
  log.error("a \\"quote\\"\\nand a line");
  log.error("failed", new RuntimeException("why", new IllegalStateException("deep")));
} }
"""


def test_known_chatter_is_left_out() -> None:
    assert list(read_events(CHATTER.splitlines())) == []


def test_a_trace_between_events_is_one_event() -> None:
    assert list(read_events([LOG4J_LINE, *TRACE, LOG4J_LINE])) == [
        (reported := {"level": "error", "event": 'no "disk"', "logger": "org.apache.spark.Thing"})
        | {"java_trace": "java.io.IOException"},
        {"event": "jvm output", "lines": "\n".join(TRACE)},
        reported | {"java_trace": "java.io.IOException"},
    ]


@pytest.mark.parametrize("line", ['{"batch": 1}', '{"level": "error"', "{}", '{"level":1,"event":2}'])
def test_json_that_is_not_log4js_is_a_plain_line(line: str) -> None:
    assert [event["lines"] for event in read_events([line])] == [line]


TWO_LINES = """
import os, threading, time, structlog
from conf.settings import Settings
from streaming.logs import jvm_lines
from streaming.logs.logs import set_up_logs
from streaming.spark.session import _output_to
set_up_logs(Settings.load(log={"format": "json"}).log)
said, say_lines = threading.Event(), jvm_lines.say_lines
jvm_lines.say_lines = lambda *given, **more: (say_lines(*given, **more), said.set())
with _output_to(jvm_lines.JvmLines()):
    structlog.get_logger().warning("of this process")
    os.write(2, b"of the JVM\\n")
    said.wait(30)
    time.sleep(0.3)
structlog.get_logger().warning("afterwards")
"""


def test_a_line_that_is_logged_while_the_jvm_starts_is_logged_once() -> None:
    """Such as one about JAVA_TOOL_OPTIONS, or an alert of the relay."""
    ended = subprocess.run([sys.executable, "-c", TWO_LINES], capture_output=True, text=True, timeout=60, check=True)
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(event["event"], event.get("lines")) for event in events] == [
        ("of this process", None),
        ("jvm output", "of the JVM"),
        ("afterwards", None),
    ]


class Ear:
    """Stands for the log."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, dict[str, Any]]] = []
        self.done = threading.Event()

    def __getattr__(self, level: str) -> Any:
        def hear(event: str, **facts: Any) -> None:
            self.heard.append((level, event, facts))
            if facts.get("lines") == "the end" or event == "failed":
                self.done.set()

        return hear


@pytest.fixture
def ear(monkeypatch: pytest.MonkeyPatch) -> Ear:
    made = Ear()
    monkeypatch.setattr(jvm_lines, "log", made)
    return made


def test_levels_are_those_of_the_event_and_a_warning_for_what_has_none(ear: Ear) -> None:
    say_lines(b'{"level":"fatal","logger":"a","event":"x"}\n{"level":"warn","logger":"a","event":"y"}\nplain\xff')
    assert [(level, event) for level, event, _ in ear.heard] == [
        ("critical", "x"),
        ("warning", "y"),
        ("warning", "jvm output"),
    ]


def test_a_process_that_inherits_the_pipe_is_heard_until_it_ends(ear: Ear) -> None:
    """However its words are cut: an event comes whole."""
    lines = JvmLines()
    half = len(LOG4J_LINE) // 2
    with lines.open("ab") as pipe:
        script = (
            "import sys, time; w = sys.stderr.write; "
            f"w({LOG4J_LINE[:half]!r}); sys.stderr.flush(); time.sleep(0.1); w({LOG4J_LINE[half:] + chr(10)!r}); "
            "sys.stderr.flush(); time.sleep(0.1); w('the end\\n')"
        )
        process = subprocess.Popen([sys.executable, "-c", script], stderr=pipe)
    assert ear.done.wait(60)
    assert process.wait(60) == 0
    assert [(level, event) for level, event, _ in ear.heard] == [
        ("error", 'no "disk"'),
        ("warning", "jvm output"),
    ]


def test_last_words_without_an_end_of_line_are_heard(ear: Ear) -> None:
    with JvmLines().open("wb") as pipe:
        pipe.write(b"the end")
    assert ear.done.wait(60)


@pytest.mark.real
def test_log4j_writes_what_is_read_here(ear: Ear, tmp_path: Path) -> None:
    """With Spark's own jars and our configuration, in a JVM of its own."""
    source = tmp_path / "Speak.java"
    source.write_text(JAVA)
    jars = Path(pyspark.__file__).parent / "jars"
    classpath = os.pathsep.join(str(path) for path in jars.glob("log4j-*.jar"))
    flags = [*JVM, "-Dbalancewatch.log=json", f"-Dlog4j2.configurationFile={LOG4J}"]
    with JvmLines().open("ab") as pipe:
        process = subprocess.Popen(["java", "-cp", classpath, *flags, str(source)], stderr=pipe)
    assert ear.done.wait(120)
    assert process.wait(60) == 0
    reported = [(level, event, facts["logger"]) for level, event, facts in ear.heard]
    assert reported == [
        ("error", 'a "quote"\nand a line', "org.apache.spark.Thing"),
        ("error", "failed", "org.apache.spark.Thing"),
    ]
    assert "Caused by: java.lang.IllegalStateException: deep" in ear.heard[1][2]["java_trace"]
