"""Jars are used only when they are those that conf/jars.sha256 names."""

import hashlib
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streaming.spark import jars
from streaming.spark.jars import IVY_XML, SETS, JarsError, archive_of, archive_options, java, resolve_jars

GOOD = {"a-1.jar": b"of a", "b-2.jar": b"of b"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that has a set `spark`, and pins for it."""
    folder = set_of(tmp_path, "spark")
    folder.mkdir(parents=True)
    for file, content in GOOD.items():
        (folder / file).write_bytes(content)
    pins = tmp_path / "jars.sha256"
    pins.write_text("".join(f"{hashlib.sha256(content).hexdigest()}  spark/{file}\n" for file, content in GOOD.items()))
    monkeypatch.setattr(jars, "PINS", pins)
    return tmp_path


def set_of(root: Path, name: str) -> Path:
    return root / hashlib.sha256(IVY_XML.read_bytes()).hexdigest()[:12] / name


def test_what_is_pinned_is_used_and_what_is_no_jar_is_not_looked_at(root: Path) -> None:
    (set_of(root, "spark") / "notes.txt").write_text("x")
    assert resolve_jars("spark", root) == set_of(root, "spark")


def test_a_jar_in_the_cache_that_differs_is_refused(root: Path) -> None:
    (set_of(root, "spark") / "b-2.jar").write_bytes(b"of B")
    with pytest.raises(
        JarsError, match=r"b-2\.jar has another SHA-256, compared with conf/jars.sha256; delete .*spark to download"
    ):
        resolve_jars("spark", root)


def test_a_repaired_set_is_used_by_the_same_process(root: Path) -> None:
    jar = set_of(root, "spark") / "b-2.jar"
    jar.write_bytes(b"of B")
    with pytest.raises(JarsError):
        resolve_jars("spark", root)
    jar.write_bytes(GOOD["b-2.jar"])
    assert resolve_jars("spark", root) == jar.parent


def test_one_more_jar_would_be_on_the_class_path_and_is_refused(root: Path) -> None:
    (set_of(root, "spark") / "evil.jar").write_bytes(b"x")
    with pytest.raises(JarsError, match=r"evil\.jar is not pinned"):
        resolve_jars("spark", root)


def test_a_jar_that_is_missing_is_reported(root: Path) -> None:
    (set_of(root, "spark") / "a-1.jar").unlink()
    with pytest.raises(JarsError, match=r"a-1\.jar is missing"):
        resolve_jars("spark", root)


def test_what_was_just_resolved_and_differs_never_comes_into_the_cache(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_ivy(_: str, target: Path) -> None:
        (target / "a-1.jar").write_bytes(b"of another")

    monkeypatch.setattr(jars, "_run_ivy", run_ivy)
    with pytest.raises(JarsError, match=r"kafka/a-1\.jar is not pinned.*Ivy used another repository"):
        resolve_jars("kafka", root)
    assert [path.name for path in set_of(root, "kafka").parent.iterdir()] == ["spark"]


def test_two_resolutions_at_once_run_ivy_one_after_the_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ivy's cache is one for all sets, and two downloads at once leave wrong checksums in it."""
    running: list[str] = []
    ran: list[str] = []

    def run_ivy(name: str, target: Path) -> None:
        assert not running
        running.append(name)
        time.sleep(0.1)
        (target / "a-1.jar").write_bytes(b"of a")
        ran.append(running.pop())

    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setattr(jars, "_run_ivy", run_ivy)
    monkeypatch.setattr(jars, "find_wrong", lambda *_: "")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: resolve_jars(name, root), ["kafka", "rocketmq", "kafka", "rocketmq"]))
    assert sorted(ran) == ["kafka", "rocketmq"]


def test_a_set_is_looked_at_once_in_a_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(jars, "find_wrong", lambda *of: looked.append(of))
    for _ in range(3):
        resolve_jars("spark", root)
    assert len(looked) == 1


def test_every_set_is_pinned() -> None:
    pins = jars._read_pins()
    assert set(pins) == set(SETS)
    assert all(
        len(digest) == 64 and file.endswith(".jar") for of_set in pins.values() for file, digest in of_set.items()
    )


def test_an_archive_of_other_classes_is_ignored_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert archive_options("spark") == []
    archive = archive_of("spark")
    archive.parent.mkdir()
    first, last = [tmp_path / "first.jar", tmp_path / "last.jar"]
    for jar in (first, last):
        with zipfile.ZipFile(jar, "w") as file:
            file.writestr("notes.txt", jar.name)
    run_java("-cp", str(first), f"-XX:ArchiveClassesAtExit={archive}")
    assert run_java("-Xshare:on", "-cp", str(first), *archive_options("spark")) == ""
    assert run_java("-cp", str(last), *archive_options("spark")) == ""
    archive.unlink()
    archive.write_bytes(b"of another JDK")
    assert run_java("-cp", str(first), *archive_options("spark")) == ""


def run_java(*options: str) -> str:
    """Start a JVM with these options and return what it says, without its version."""
    done = subprocess.run([java(), *options, "-version"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout
