"""RocketMQ's own classes as judges: a small Java main beside each test, run on the jars of three releases."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from conf.settings import Settings
from streaming.jars import class_path, java

RELEASES = {"4.7.1": "client-4.7.1", "4.9.8": "client-4.9.8", "5.5.0": "rocketmq"}
"""Client release to the Ivy configuration that has its jars."""

SECONDS = 300.0


def ask(source: str, release: str, questions: Sequence[str]) -> list[str]:
    """The answer to each question, a line each, from tests/oracle/SOURCE run by the JDK on a release's jars.

    The Java main reads stdin and writes `= ANSWER` for each line; what else RocketMQ's logging says is dropped.
    """
    folder = Path(__file__).parent
    jars = class_path(RELEASES[release], Settings.load().paths.jars)
    said = subprocess.run(
        [
            java(),
            "-XX:TieredStopAtLevel=1",
            "-Dfile.encoding=UTF-8",
            "-Duser.home=/dev/null",
            "-Drocketmq.client.logUseSlf4j=true",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",  # the Netty of 4.7.1 looks into it
            "-cp",
            jars,
            str(folder / source),
        ],
        input="".join(f"{question}\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    answers = [line[2:] for line in said.stdout.splitlines() if line.startswith("= ")]
    assert len(answers) == len(questions), (said.stderr + said.stdout)[-2000:]
    return answers
