"""`run` on a standalone cluster as the README says: two workers, the wheel at the driver, packages alone elsewhere."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.kafka_io.embedded_kafka import EmbeddedKafka
from tests.conftest import settings_for
from tests.service.test_run_process import environment_for
from tests.support.row_writer import read_alerts
from tests.support.spark_cluster import Cluster, spark_cluster
from tests.support.twins_log import Story, story_in

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.proof]

ROOT = Path(__file__).parents[2]
SECONDS = 420.0
MOST_BYTES = 3_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one that `pip wheel` makes of this checkout, without a network."""
    folder, sources = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("sources")
    for name in ("conf", "schemas", "streaming", "udfs"):
        shutil.copytree(ROOT / name, sources / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    flags = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-index", "-q"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *flags, "-w", folder, sources], check=True, timeout=SECONDS)
    (found,) = folder.glob("balancewatch-*.whl")
    return found


@pytest.fixture(scope="module")
def driver(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel is installed, for the driver alone."""
    folder = tmp_path_factory.mktemp("driver")
    flags = ["--no-deps", "--disable-pip-version-check", "--no-index", "-q", "--target", folder]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, wheel], check=True, timeout=SECONDS)
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workers' Python: it has the packages of requirements.lock, and nothing of ours."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False, symlinks=True)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (site / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = folder / "bin" / "python"
    found = "import importlib.util, pyarrow; print(importlib.util.find_spec('streaming'))"
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run([python, "-c", found], capture_output=True, text=True, check=True, cwd=folder, env=known)
    assert said.stdout.strip() == "None"
    return python


def start(settings: Settings, cluster: Cluster, driver: Path, python: Path, log: Path) -> "subprocess.Popen[bytes]":
    options = {
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.pyspark.python": str(python),
        "spark.pyspark.driver.python": sys.executable,
    }
    environment = environment_for(
        settings,
        SPARK__MASTER=cluster.address,
        SPARK__OPTIONS=json.dumps(options),
        QUERIES__TASKS="4",
        QUERIES__MAX_OFFSETS_PER_TRIGGER="400",
    ) | {"PYTHONPATH": str(driver)}
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "streaming.cli", "run", "--available-now"],
            env=environment,
            cwd=log.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def is_in_a_batch(checkpoints: Path, after: int) -> bool:
    """Whether a query has begun a batch beyond the first `after`, and not ended it."""
    for query in checkpoints.glob("*/offsets"):
        begun = [int(path.name) for path in query.iterdir() if path.name.isdigit()]
        done = [int(path.name) for path in (query.parent / "commits").glob("[0-9]*")]
        if begun and max(begun) > max(after, *done, -1):
            return True
    return False


def test_two_workers_give_the_same_incidents_though_one_executor_dies_in_mid_batch(
    loaded_kafka: EmbeddedKafka, tmp_path: Path, reported: Story, driver: Path, python: Path
) -> None:
    settings = settings_for(loaded_kafka, tmp_path)
    log = tmp_path / "run.log"
    with spark_cluster(tmp_path) as cluster:
        run = start(settings, cluster, driver, python, log)
        deadline = time.monotonic() + SECONDS
        try:
            while not is_in_a_batch(settings.paths.checkpoints, 2):
                assert run.poll() is None, log.read_text()[-MOST_BYTES:]
                assert time.monotonic() < deadline, log.read_text()[-MOST_BYTES:]
                time.sleep(0.02)
            before = cluster.executors()
            os.kill(before[0], signal.SIGKILL)
            assert run.wait(max(1.0, deadline - time.monotonic())) == 0, log.read_text()[-MOST_BYTES:]
        finally:
            run.kill()
            run.wait()
        said = cluster.executor_logs()
        assert len(before) == 2, "each worker has an executor process of its own"
        assert all("Running task" in one for one in said), "partitions are spread over both"
        assert len(list(cluster.work[0].glob("app-*/*"))) + len(list(cluster.work[1].glob("app-*/*"))) > 2
    assert story_in(settings) == reported
    rows = read_alerts(settings.paths.warehouse)
    keys = [(row["incident_id"], row["state"], row["changed_at"]) for row in rows]
    assert len(keys) == len(set(keys))
