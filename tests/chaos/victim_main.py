"""`python -m tests.chaos.victim_main [POINT NTH] -- ARGUMENTS`: the `balancewatch` command with a trap set in it."""

import sys

from streaming import cli
from tests.chaos.kill_points import Trap, set_trap


def main() -> None:
    split = sys.argv.index("--")
    if trap := sys.argv[1:split]:
        point, nth = trap
        set_trap(Trap(point, int(nth)))
    sys.argv = ["balancewatch", *sys.argv[split + 1 :]]
    cli.main()


if __name__ == "__main__":
    main()
