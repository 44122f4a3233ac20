"""The rivals' figures side by side with those of balancewatch, as a table."""

from rich.table import Table

from tests.bench.rivals.measure import RivalsResult


def comparison_table(result: RivalsResult) -> Table:
    """A row a contender. CPU and memory are of all its processes."""
    title = (
        f"the same work by others: {result.events:,} send latencies drained after {result.batch:,} of warm-up; "
        f"1,000 events/s live after {result.warm_up_seconds:.0f} s"
    )
    table = Table("", "drain", "CPU", "memory", "live p50 / p95", "cores", "memory", "flips", title=title)
    for contender in result.contenders:
        cells = ["-"] * 6
        if drain := contender.drain:
            rate = f"{drain.events_per_second:,.0f}/s"
            cells[:3] = rate, f"{drain.cpu_seconds:.1f} s", f"{drain.memory.peak_mib:,} MiB"
        if live := contender.live:
            latency = f"{live.flips_ms.p50:,.0f} / {live.flips_ms.p95:,.0f} ms"
            cells[3:] = latency, f"{live.cores:.2f}", f"{live.memory.peak_mib:,} MiB"
        loads = [load.flips for load in (drain, live) if load is not None]
        flips = "; ".join(f"{one.rows:,} {one.text}" if one is not None else "not compared" for one in loads)
        table.add_row(contender.name, *cells, flips or "-")
    return table


def notes(result: RivalsResult) -> list[str]:
    """What the figures of the table mean, and why some are missing."""
    packages = {one.name: one.packages[0] for one in result.contenders if one.packages}
    texts = [
        f"Versions: {', '.join(packages.values())}. One process each; balancewatch uses both cores. Rivals decode by "
        "msgspec, check nothing; they commit to Delta each second in the drain, each 0.2 s live; bytewax then at once.",
        "Flips: drain; live. Rows beside the plain loop's, column by column.",
    ]
    return texts + [f"{one.name}: not measured: {one.absent}" for one in result.contenders if one.absent]
