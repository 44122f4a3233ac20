"""`python -m tests.lab.chaos.victim_main [POINT NTH] -- ARGUMENTS`: the `balancewatch` command with a trap in it."""

import contextlib
import os
import signal
import sys

from streaming import cli
from tests.lab.chaos.kill_points import Trap, watched


def main() -> None:
    split = sys.argv.index("--")
    point_and_nth = sys.argv[1:split]
    sys.argv = ["balancewatch", *sys.argv[split + 1 :]]
    with contextlib.ExitStack() as stack:
        if point_and_nth:
            point, nth = point_and_nth
            trap = Trap(point, int(nth))
            stack.enter_context(watched(lambda passed: _die() if trap.springs_at(passed) else None))
        cli.main()


def _die() -> None:
    """SIGKILL to the whole process group, JVM and all."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
