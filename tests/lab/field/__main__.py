"""`make field`: a real RocketMQ under real trouble; the alerts held against what the clients wrote down themselves.

Every scenario of tests/lab/field/scenarios is played on production's clocks, unattended. Those that affect only
themselves are played side by side, the others alone, the quiet hour last. The table is printed, and kept as JSON and
Markdown.

Examples:
  make field                                        all of it, about two hours
  make field ARGS="--list"                          what there is, in which batches, and how long it takes
  make field ARGS="--only frozen --only twins_push" these, side by side
  make field ARGS="--seeds 2"                       each scenario with two seeds, which shift its troubles
  make field ARGS="--judge .field/1763881200"       judge again what was played
  make field ARGS="--judge .field/1763881200 --replay"   with the alerts that today's rules make of the stored events
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conf.settings import Settings
from tests.lab.field.report import markdown_of, short_of
from tests.lab.field.scenario import ScenarioError, load_scenario, scenario_names
from tests.lab.field.session import Wanted, batches_of, play_batch, seconds_of
from tests.lab.field.stage import field_stage
from tests.lab.field.stored import (
    ALERTS_FILE,
    EVENTS_FILE,
    judge_plays,
    judge_stored,
    keep_alerts,
    keep_events,
    read_events,
    replayed_rows,
    stored_plays,
)
from tests.support.laboratory import say, stop_on_signals
from tests.support.rocketmq_clocks import Clocks

REPORTED_SECONDS = 12.0
"""The alerts of a play's last round are in the table by then."""


def main() -> None:
    """Play, judge, print; exit code 1 when something was missed, false or not played."""
    arguments = _arguments()
    if arguments.replay:
        if not arguments.judge or not (arguments.judge / EVENTS_FILE).exists():
            sys.exit(f"error: --replay: --judge names no folder with {EVENTS_FILE}")
        report = judge_plays(stored_plays(arguments.judge), replayed_rows(arguments.judge), arguments.judge)
        sys.exit(_write(arguments.judge, "replayed", report, []))
    if arguments.judge:
        sys.exit(_judge(arguments.judge, []))
    try:
        names = arguments.only or scenario_names()
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        batches = batches_of([(name, seed) for name in names for seed in seeds], arguments.processes)
    except ScenarioError as error:
        sys.exit(f"error: {error}")
    if arguments.list:
        for number, batch in enumerate(batches, 1):
            print(f"batch {number}:")
            for name, seed in batch:
                scenario = load_scenario(name)
                print(f"  {name} {seed}, {scenario.seconds:.0f} s: {scenario.about}")
        print(f"about {seconds_of(batches) / 60:.0f} min")
        return
    folder = arguments.folder or Path(".field") / str(int(time.time()))
    folder.mkdir(parents=True)
    minutes = seconds_of(batches) / 60
    say(f"{sum(map(len, batches))} plays in {len(batches)} batches, about {minutes:.0f} min, in {folder}")
    sys.exit(_judge(folder, _play(folder.resolve(), batches)))


def _play(folder: Path, batches: Sequence[Sequence[Wanted]]) -> list[str]:
    """Ctrl-C and SIGTERM end everything that was started; what was played up to then is judged. Return failures."""
    stop = stop_on_signals(say)
    failures: list[str] = []
    proxy = any(load_scenario(name).has_grpc for batch in batches for name, _ in batch)
    with field_stage(folder, Settings.load().paths.jars, Clocks(1), stop, proxy=proxy) as stage:
        try:
            for batch in batches:
                if stop.is_set():
                    break
                say("playing " + ", ".join(f"{name} {seed}" for name, seed in batch))
                played, failed = play_batch(stage, batch)
                failures += failed
                stop.wait(REPORTED_SECONDS)
                keep_alerts(folder, stage.warehouse)
                names = {(one.scenario_name, one.seed) for one in played}
                for row in judge_stored(folder)["plays"]:
                    if (row["scenario"], row["seed"]) in names:
                        verdict = "right" if row["is_right"] else "NOT RIGHT"
                        say(f"{row['scenario']} {row['seed']}: {verdict}; reported {row['reported']}")
        finally:
            kept = keep_events(folder, read_events(stage.bootstrap_servers))
            say(f"{kept} events are kept in {EVENTS_FILE}")
    return [*failures, "the session: was ended"] if stop.is_set() else failures


def _judge(folder: Path, failures: Sequence[str]) -> int:
    """Print and keep the table; the exit code."""
    if not (folder / ALERTS_FILE).exists():
        print("nothing was played to its end")
        return 1
    return _write(folder, "field", judge_stored(folder), failures)


def _write(folder: Path, name: str, report: dict[str, Any], failures: Sequence[str]) -> int:
    (folder / f"{name}.json").write_text(json.dumps({**report, "failed": failures}, indent=2) + "\n")
    text = markdown_of(report)
    (folder / f"{name}.md").write_text(text)
    print(text)
    for failure in failures:
        print(f"not played: {failure}")
    print(f"written to {folder / name}.json and {folder / name}.md")
    return 1 if failures or short_of(report) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make field", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="SCENARIO", help="only this one; repeat for more")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; 0 shifts nothing")
    parser.add_argument("--seeds", type=int, default=1, help="plays a scenario")
    parser.add_argument("--processes", type=int, default=34, help="JVMs of clients side by side")
    parser.add_argument("--folder", type=Path, help="where logs and tables go; .field/TIME without it")
    parser.add_argument("--list", action="store_true", help="print the scenarios and their batches, and end")
    parser.add_argument("--judge", type=Path, metavar="FOLDER", help="judge what was played there again, and end")
    parser.add_argument("--replay", action="store_true", help="with --judge: judge today's rules on the stored events")
    return parser.parse_args()


if __name__ == "__main__":
    main()
