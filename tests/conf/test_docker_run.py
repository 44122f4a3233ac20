"""The `docker run` of conf/deploy/README.md without Docker: its options as a process's variables, folders and user."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from streaming.store.store import History
from tests.conf.test_deploy import DEPLOY, DOCKERFILE, ROOT, dockerfile_environment
from tests.conftest import settings_for
from tests.support.twins_log import publish, twins_log
from tests.system.test_stopping import END_SECONDS, Command, command, to_each

JARS = "/mnt"
((USER, HOME),) = re.findall(r"useradd --uid (\d+) .*--home-dir (\S+)", DOCKERFILE.read_text())
DEFAULTS = "noexec,nosuid,nodev"
"""Docker's options of a tmpfs, which those of the command come after: moby, daemon/oci_linux.go."""


@dataclass(frozen=True)
class DockerRun:
    """`docker run`: tmpfs folders with their options, the volume's folder, the env file, and the command's words."""

    tmpfs: dict[str, str]
    volume: str
    env_file: Path
    command: Sequence[str]


def docker_run() -> DockerRun:
    """The page's command. Fails for an option that this file does not reproduce."""
    found = re.search(r"\$ (docker run (?:.|\\\n)+?balancewatch:0\S+.*)\n", (DEPLOY / "README.md").read_text())
    assert found is not None
    words, tmpfs, named = iter(shlex.split(found[1].replace("\\\n", " "))[2:]), dict[str, str](), dict[str, str]()
    is_read_only = False
    for word in words:
        if word == "--read-only":
            is_read_only = True
        elif word == "--tmpfs":
            folder, _, options = next(words).partition(":")
            tmpfs[folder] = options
        elif word in ("-v", "--env-file", "--name", "--stop-timeout"):
            named[word] = next(words)
        elif word != "-d":
            break
    assert is_read_only
    assert word.startswith("balancewatch:")
    default = re.findall(r'(?m)^CMD \["(\w+)"\]', DOCKERFILE.read_text())
    return DockerRun(tmpfs, named["-v"].partition(":")[2], ROOT / named["--env-file"], list(words) or default)


def variables(file: Path) -> Iterator[tuple[str, str]]:
    """The variables of an env file as Docker reads them: docker/cli, opts/file.go. A value is taken as it is."""
    for line in file.read_text().splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            name, has_value, value = line.lstrip().partition("=")
            assert has_value, f"{name}: would come from the environment of `docker run`"
            assert not re.search(r"\s", name), name
            yield name, value


def environment_of(command: DockerRun, **others: str) -> dict[str, str]:
    """The process's only variables; `others` are what is not of the image here."""
    image = {**dockerfile_environment(), "PATH": os.environ["PATH"], "HOME": HOME}
    return {**image, **dict(variables(command.env_file)), "PYTHONPATH": str(ROOT), **others}


def test_check_accepts_the_environment_of_the_command(tmp_path: Path) -> None:
    given = environment_of(docker_run())
    here = {name: value.replace("/var", str(tmp_path)) if name != "PATH" else value for name, value in given.items()}
    command = [sys.executable, "-m", "streaming.cli", "check"]
    ended = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "The settings are valid." in ended.stdout


SHORT_JVM = {name: os.environ[name] for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}
"""The flags of tests/conftest.py for JVMs that live for a minute."""

MAY_MOUNT = (
    None not in (shutil.which("unshare"), shutil.which("setpriv"))
    and not subprocess.run(
        ["unshare", "-m", "mount", "-o", "remount,bind,ro", "/"], capture_output=True, check=False
    ).returncode
)


@contextlib.contextmanager
def run_as_docker(docker: DockerRun, volume: Path, folder: Path, **others: str) -> Iterator[Command]:
    """Start it in a mount namespace with its folders, a read-only root, and the image's user.

    The user may read all files, because Python and the jars may be in root's home here, and write none of others.
    """
    shutil.chown(volume, int(USER), int(USER))
    users = volume.with_name("passwd")
    users.write_text(f"root:x:0:0::/root:/bin/sh\nbalancewatch:x:{USER}:{USER}::{HOME}:/usr/sbin/nologin\n")
    folders = [docker.volume, *docker.tmpfs]
    parents = sorted({str(Path(folder).parent) for folder in folders} - {"/"})
    mounts = {folder: f"{DEFAULTS},{options}".rstrip(",") for folder, options in docker.tmpfs.items()}
    may_read = "-all,+dac_read_search"
    steps = [
        f"mount --bind {users} /etc/passwd",
        f"mount --bind {Settings.load().paths.jars.expanduser()} {JARS}",
        *(f"mount -t tmpfs tmpfs {parent}" for parent in parents),
        f"mkdir -p {' '.join(folders)}",
        f"mount --bind {volume} {docker.volume}",
        *(f"mount -t tmpfs -o {options} tmpfs {folder}" for folder, options in mounts.items()),
        *(f"mount -o remount,bind,ro {folder}" for folder in (*parents, JARS, "/")),
        f"cd {docker.volume}",
        f"exec setpriv --reuid {USER} --regid {USER} --clear-groups --inh-caps {may_read} --ambient-caps {may_read} "
        f'--bounding-set {may_read} "$@"',
    ]
    variables = environment_of(docker, BALANCEWATCH_PATHS__JARS=JARS, **SHORT_JVM, **others)
    only = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
    through = [*only, "unshare", "-m", "sh", "-ec", "\n".join(steps), "sh"]
    with command(folder, {}, *docker.command, through=through) as started:
        yield started


@pytest.mark.spark
@pytest.mark.real
@pytest.mark.skipif(not MAY_MOUNT, reason="needs unshare, setpriv, and the right to mount")
def test_run_works_and_ends_with_the_options_of_the_command_and_not_with_dockers_defaults(
    empty_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """SIGTERM comes amid its batches, and to every process, as systemd sends it."""
    publish(settings_for(empty_kafka, tmp_path), twins_log()[:500])
    docker, volume = docker_run(), tmp_path / "volume"
    volume.mkdir()
    others = {
        "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS": empty_kafka.bootstrap_servers,
        "BALANCEWATCH_QUERIES__MAX_OFFSETS_PER_TRIGGER": "100",
    }
    noexec = replace(docker, tmpfs=docker.tmpfs | {"/tmp": ""})  # noqa: S108  # the page's
    with run_as_docker(noexec, volume, tmp_path, **others) as refused:
        assert refused.process is not None
        assert refused.process.wait(END_SECONDS) == 2, refused.printed()
        assert "the temporary folder /tmp is mounted noexec" in refused.printed()
        refused.log.unlink()
    commit = volume / "checkpoints" / "balance" / "commits" / "0"
    with run_as_docker(docker, volume, tmp_path, **others) as run:
        run.wait_until(lambda: commit.exists() and any((volume / "warehouse" / "memberships").glob("*.parquet")))
        run.end(to_each)
    assert History(volume / "warehouse").rows("SELECT count(*) AS rows FROM memberships")[0]["rows"]
    assert len({path.stat().st_uid for path in volume.rglob("*")} | {volume.stat().st_uid}) == 1
