"""The Spark session: the Python of its workers, and a command line without settings."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from streaming.spark import worker_daemon
from streaming.spark.jars import archive_of
from streaming.spark.session import ON_ONE_MACHINE, WORKER_PYTHON, _choose_python
from tests.conftest import TRICKY_OPTIONS

ASK = "import json, sys, pyspark; print(json.dumps([pyspark.__file__, sys.path, sys.argv[1:]]))"

ZIP = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def test_a_worker_takes_the_installed_pyspark_and_every_other_entry(tmp_path: Path) -> None:
    """A path with a blank among them, and arguments as they are."""
    assert ZIP.is_file(), "what Spark puts before the installed one"
    other, py4j = tmp_path / "with a blank", str(ZIP.parent / "py4j.zip")
    path = os.pathsep.join([str(ZIP), py4j, str(tmp_path / "spark-core.jar"), str(other)])
    ended = subprocess.run(
        [WORKER_PYTHON, "-c", ASK, "two words", "*"],
        env={**os.environ, "PYTHONPATH": path, "SPARK_WORKER_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    place, entries, arguments = json.loads(ended.stdout)
    assert place == pyspark.__file__
    assert entries[1:3] == [py4j, str(other)]
    assert not [entry for entry in entries if entry.endswith((".jar", "pyspark.zip"))]
    assert arguments == ["two words", "*"]


@pytest.mark.parametrize(
    ("masters", "given", "chosen"),
    [
        (["local[2]"], None, str(WORKER_PYTHON)),
        (["spark://host:7077"], None, sys.executable),
        (["local[2]", "spark://host:7077"], None, sys.executable),
        (["spark://host:7077", "local[2]"], None, str(WORKER_PYTHON)),
        (["local[2]"], "/opt/python", "/opt/python"),
        (["spark://host:7077"], "/opt/python", "/opt/python"),
    ],
)
def test_workers_elsewhere_and_who_names_a_python_are_left_alone(
    masters: list[str], given: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_WORKER_PYTHON", "")
    monkeypatch.setenv("PYSPARK_PYTHON", given or "")
    if given is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    for master in masters:
        _choose_python(master)
    assert os.environ["PYSPARK_PYTHON"] == chosen


@pytest.mark.spark
def test_workers_are_started_by_our_daemon(warm_spark: SparkSession) -> None:
    parents = warm_spark.sparkContext.parallelize([0], 1).map(
        lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_text()
    )
    assert ON_ONE_MACHINE["spark.python.daemon.module"] in parents.first().split("\0")


@pytest.mark.spark
def test_a_local_files_permissions_need_no_process(warm_spark: SparkSession, tmp_path: Path) -> None:
    made = warm_spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path / "made"))
    files = made.getFileSystem(warm_spark._jsc.hadoopConfiguration())
    files.create(made, True).close()
    private = warm_spark._jvm.org.apache.hadoop.fs.permission.FsPermission("600")
    files.setPermission(made, private)
    assert files.getRaw().getClass().getSimpleName() == "NakedLocalFileSystem", "Hadoop's own starts chmod"
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o600
    assert (tmp_path / ".made.crc").is_file(), "files keep their checksums"


def test_a_task_is_acknowledged_at_once_on_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr(worker_daemon, "_worker", lambda sock, authenticated: given.append(authenticated) or 0)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert worker_daemon.worker(sock, True) == 0
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
    for sock in socket.socketpair():
        with sock:
            worker_daemon.worker(sock, False)
    assert given == [True, False, False]


def test_no_setting_is_on_the_command_line_and_all_arrive(warm_spark: SparkSession) -> None:
    command = ["ps", "-ww", "-o", "args", "--ppid", str(os.getpid())]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "org.apache.spark.deploy.SparkSubmit" in shown
    assert "hunter2" not in shown
    assert "spark.hadoop" not in shown
    conf = warm_spark.sparkContext.getConf()
    assert {key: conf.get(key) for key in TRICKY_OPTIONS} == TRICKY_OPTIONS


@pytest.mark.spark
def test_the_jvm_maps_its_archive_of_classes_if_one_is_recorded(warm_spark: SparkSession) -> None:
    archive = archive_of("spark")
    jvm = warm_spark._jvm.java.lang.ProcessHandle.current().pid()
    assert (str(archive.resolve()) in Path(f"/proc/{jvm}/maps").read_text()) == archive.is_file()


NOEXEC = 'mount -t tmpfs -o noexec,nosuid,nodev tmpfs /tmp && exec "$@"'
"""As Docker mounts `--tmpfs /tmp`, in a mount namespace of its own."""


def in_docker(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", NOEXEC, "sh", sys.executable, "-c", code],
        env={name: value for name, value in os.environ.items() if name != "TMPDIR"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(
    shutil.which("unshare") is None or in_docker("").returncode != 0, reason="needs Linux, and the right to mount"
)
def test_a_temporary_folder_that_docker_mounts_noexec_is_refused_with_the_remedy() -> None:
    code = "from streaming.spark.session import temporary_folder; print(temporary_folder())"
    refused = in_docker(code)
    assert "the temporary folder /tmp is mounted noexec" in refused.stderr
    assert "docker run --tmpfs /tmp:exec" in refused.stderr
    folder = str(WORKER_PYTHON.parent)  # any other
    assert in_docker(code, TMPDIR=folder).stdout == f"{folder}\n"
