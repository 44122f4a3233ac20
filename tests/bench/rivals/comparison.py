"""The rivals' figures side by side with ours, as a table."""

from rich.table import Table

from tests.bench.rivals.measure import Contender, RivalsResult


def comparison_table(result: RivalsResult) -> Table:
    """A row a contender and load. CPU and memory are of all its processes."""
    title = (
        f"the same work by others: {result.events:,} send latencies drained after {result.batch:,} of warm-up; "
        f"1,000 events/s live after {result.warm_up_seconds:.0f} s"
    )
    table = Table("", "drain", "CPU", "memory", "live p50 / p95", "cores", "memory", "flips", title=title)
    for contender in result.contenders:
        table.add_row(contender.name, *_drain(contender), *_live(contender), _flips(contender))
    return table


def notes(result: RivalsResult) -> list[str]:
    """What a figure of the table means, and why one is not there."""
    packages = {one.name: one.packages[0] for one in result.contenders if one.packages}
    reported = [
        f"Versions: {', '.join(packages.values())}. One process each; ours takes both cores. Rivals decode by "
        "msgspec, check nothing; they commit to Delta each second in the drain, each 0.2 s live; bytewax then at once.",
        "Flips: drain; live. Rows beside the plain loop's, column by column.",
    ]
    return reported + [f"{one.name}: not measured: {one.absent}" for one in result.contenders if one.absent]


def _drain(contender: Contender) -> tuple[str, str, str]:
    if (drain := contender.drain) is None:
        return "-", "-", "-"
    return f"{drain.events_per_second:,.0f}/s", f"{drain.cpu_seconds:.1f} s", f"{drain.memory.peak_mib:,} MiB"


def _live(contender: Contender) -> tuple[str, str, str]:
    if (live := contender.live) is None:
        return "-", "-", "-"
    flips = live.flips_ms
    return f"{flips.p50:,.0f} / {flips.p95:,.0f} ms", f"{live.cores:.2f}", f"{live.memory.peak_mib:,} MiB"


def _flips(contender: Contender) -> str:
    loads = [load.flips for load in (contender.drain, contender.live) if load is not None]
    return "; ".join(f"{flips.rows:,} {flips.text}" if flips is not None else "not compared" for flips in loads) or "-"
