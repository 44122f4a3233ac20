"""What `run` takes while a cluster is quiet: cores and memory of each of its processes, minutes after its start."""

from deltalake import DeltaTable

from streaming.warehouse.tables import table_path
from tests.lab.bench.events import CLUSTER
from tests.lab.bench.figures import Figures, parts_of
from tests.lab.bench.pacer import pace_quiet, publishing
from tests.lab.bench.process_tree import cores_by_name, cpu_of, read_tree, resident_by_name
from tests.lab.bench.scratch import live_run, scratch
from tests.support.laboratory import say

PARTS = 4
"""Of the measured span, each reported as it ends."""


def measure_idle(settle_seconds: float, seconds: float) -> Figures:
    """`run` with its defaults, in its own process, beside a quiet cluster: cores of all processes but Kafka."""
    with scratch(0) as place:
        settings = place.settings_for("idle")
        with publishing(pace_quiet, settings.kafka, settle_seconds + seconds + 300), live_run(settings) as run:
            say(f"idle: letting it settle for {settle_seconds:.0f} s, then measuring for {seconds:.0f} s")
            run.sleep(settle_seconds)
            first = before = read_tree(run.pid)
            parts = []
            for number in range(PARTS):
                run.sleep(seconds / PARTS)
                after = read_tree(run.pid)
                parts.append((cpu_of(after) - cpu_of(before)) / (seconds / PARTS))
                say(f"idle {number + 1}/{PARTS}: {parts[-1]:.2f} cores")
                before = after
        alerts = DeltaTable(table_path(settings.paths.warehouse, "alerts"))
        rows = alerts.to_pyarrow_table(columns=["cluster", "state"]).to_pylist()
    by_name = cores_by_name(first, before, seconds)
    fired = sum(row["cluster"] == CLUSTER and row["state"] == "FIRING" for row in rows)
    figures = Figures(values={"cores": by_name, "parts": parts})
    spread = f"{min(parts):.2f} to {max(parts):.2f}"
    figures.add("idle, CPU", f"{sum(by_name.values()):.2f} cores", spread, f"from {settle_seconds:.0f} s on")
    figures.add("idle, CPU by process", "", "", parts_of(by_name, 2))
    if fired:
        figures.add("idle, alerts that fired", str(fired), "", "none is due")
    figures.add_memory("idle", resident_by_name(before), "at the end")
    return figures
