"""A very large fleet: in one process, on a Spark cluster of one worker, and of two, all on this machine."""

import contextlib
import os
from collections.abc import Mapping
from statistics import fmean
from typing import Any, NamedTuple

from schemas.events import HEARTBEATS, PULLS
from tests.lab.bench.apart import run_apart
from tests.lab.bench.assignments import run_plan
from tests.lab.bench.events import SMALL
from tests.lab.bench.figures import Figures, seconds_of
from tests.lab.bench.process_tree import TreeWatch
from tests.lab.bench.scratch import scratch_folder
from tests.support.laboratory import say
from tests.support.spark_cluster import spark_cluster

HEAP = "3g"
"""Of the driver, and of each executor: three of them, Python workers and Kafka fit into 23 GiB."""

PARTITIONS = {PULLS: 2, HEARTBEATS: 2}
"""Of the topics with most events: two workers read them side by side."""

FORMS = {"one process": 0, "one worker": 1, "two workers": 2}
"""Workers of a cluster, one core each; 0 without a cluster, by the default master."""


class Form(NamedTuple):
    """What a form of deployment took: seconds of each batch, the first with new groups, and bytes at the peak."""

    seconds: list[float]
    rows: int
    resident: Mapping[str, int]


def measure_cluster(groups: int, repetitions: int, turns: int) -> Figures:
    """Make `groups` groups and touch them all several times, in each form; the clusters by turns."""
    order = ["one process", *(["one worker", "two workers"] * turns)]
    forms: dict[str, list[Form]] = {name: [] for name in FORMS}
    for number, name in enumerate(order, 1):
        say(f"cluster {number}/{len(order)}: {groups:,} groups, {name}")
        forms[name].append(run_apart(run_form, groups, repetitions, FORMS[name]))
    return figures_of(groups, forms)


def run_form(groups: int, repetitions: int, workers: int) -> Form:
    """Run a batch of new groups, then batches that touch them all. Call it in a fresh process: a JVM has one master."""
    with contextlib.ExitStack() as parts:
        more: dict[str, dict[str, Any]] = {"spark": {"driver_memory": HEAP}, "kafka": {"partitions": PARTITIONS}}
        if workers:
            cluster = parts.enter_context(spark_cluster(parts.enter_context(scratch_folder()), workers))
            options = {"spark.executor.memory": HEAP, "spark.executor.cores": "1"}
            more["spark"] |= {"master": cluster.address, "options": options}
            more["queries"] = {"tasks": workers}
        watch = parts.enter_context(TreeWatch(os.getpid()))
        batches = run_plan(watch, SMALL, [groups] * (1 + repetitions), **more)
        return Form(list(map(seconds_of, batches)), batches[-1].numInputRows, watch.peak())


def figures_of(groups: int, forms: Mapping[str, list[Form]]) -> Figures:
    """Of each form, and the ratio of two workers to one in pairs of one turn."""
    figures = Figures()
    for name, of_form in forms.items():
        touched = [seconds for form in of_form for seconds in form.seconds[1:]]
        beside = f"{groups:,} groups, {of_form[-1].rows:,} rows"
        figures.add_spread(f"cluster, {name}, new groups", [form.seconds[0] for form in of_form], "{:.1f} s", beside)
        figures.add_spread(f"cluster, {name}, all touched", touched, "{:.1f} s", beside)
        figures.add_memory(
            f"cluster, {name}", max((form.resident for form in of_form), key=lambda one: sum(one.values()))
        )
    pairs = zip(forms["one worker"], forms["two workers"], strict=True)
    ratios = [fmean(two.seconds[1:]) / fmean(one.seconds[1:]) for one, two in pairs]
    figures.add_spread("cluster, two workers / one", ratios, "{:.2f}", "all touched, by turns")
    return figures
