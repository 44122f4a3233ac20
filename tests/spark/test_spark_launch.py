"""Spark's JVM: its command line shows no setting, and each arrives as it was written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TRICKY = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.hadoop.fs.s3a.secret.key": "hunter2/+= \\:#!'\"",
    "spark.hadoop.a b=c": "  blanks around  ",
    "spark.hadoop.lines": "one\ntwo\ttab",
    "spark.hadoop.far": "naïve 東京 🙂 $HOME ${java.home} `id`",
}

SCRIPT = """
import json, os, subprocess, sys
from pathlib import Path
from conf.settings import Settings
from streaming.spark.session import start_spark
options = json.loads(sys.argv[1])
spark = start_spark(Settings.load(spark={"options": options}), Path(sys.argv[2]))
shown = subprocess.check_output(["ps", "-ww", "-o", "args", "--ppid", str(os.getpid())], text=True)
conf = spark.sparkContext.getConf()
mapped = spark.range(3).repartition(2).rdd.map(lambda row: row.id * 2).sum()
print(json.dumps([shown, {key: conf.get(key) for key in options}, mapped]))
spark.stop()
"""


@pytest.mark.spark
def test_no_setting_is_on_the_command_line_and_all_arrive(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(TRICKY), str(tmp_path / "spark.log")],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    shown, arrived, doubled = json.loads(ended.stdout.splitlines()[-1])
    assert "org.apache.spark.deploy.SparkSubmit" in shown
    assert "hunter2" not in shown
    assert "spark.hadoop" not in shown
    assert arrived == TRICKY
    assert doubled == 6
    assert not list(tmp_path.glob("balancewatch-spark-*"))
