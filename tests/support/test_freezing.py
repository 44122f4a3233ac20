"""A frozen child has no thread left that runs, however busy the machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.freezing import freeze

THREADS = 40
BUSY = f"""
import threading
def turn():
    while True:
        pass
for _ in range({THREADS}):
    threading.Thread(target=turn, daemon=True).start()
print("runs", flush=True)
turn()
"""


def test_every_thread_has_stopped_when_freeze_returns() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            child.stdout.readline()
            for _ in range(20):
                freeze(child.pid)
                assert states_of(child.pid) == ["T"] * (THREADS + 1)
                freeze(child.pid)  # it is already
                os.kill(child.pid, signal.SIGCONT)
        finally:
            child.kill()


def test_a_child_that_ends_is_left_alone_and_is_still_its_owners_to_wait_for() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    freeze(child.pid)
    assert child.wait() == 0


def states_of(pid: int) -> list[str]:
    """The kernel's letter for each of its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]
