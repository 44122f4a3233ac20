"""`python -m tests.bench.soak`: what grows in an hour of 1,000 events/s? Its first tenth against its last.

`balancewatch run` with its defaults but without on-call, on an embedded Kafka; the events of the latency bench, with
twins that come and go each second. A table goes to stdout, all samples as JSON to a file, a line a minute to stderr.
Ctrl-C ends it with the samples so far. An hour takes about 2 GB in the folder for temporary files.
"""

import argparse
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from streaming.kafka_io.topics import create_topics
from tests.bench.figures import first_and_last_tenth, percentiles_of
from tests.bench.live_run import live_run
from tests.bench.pacer import pace, publishing
from tests.bench.scratch import read_machine, say, scratch, write_report
from tests.bench.soak_samples import Sample, Sampler
from tests.bench.soak_tenths import Tenth, tenth_of, tenths_table
from tests.service_process import ServiceEndedError

WIDTH = 100
MINUTE = 60.0
KAFKA_HOURS = 2
"""That Kafka keeps events: a day's would fill the disk."""

MOST_SECONDS_A_SAMPLE = 10.0
SAMPLES_A_TENTH = 5
INTERRUPTED = "Ctrl-C"

EXAMPLES = """
examples:
  python -m tests.bench.soak                  an hour
  make soak ARGS="--minutes 10"
  make soak ARGS="--minutes 1440 --json day.json"
"""


@dataclass(frozen=True)
class SoakResult:
    """`minutes` that it lasted, after the warm-up; `ended` is why it ended before its time, if it did."""

    minutes: float
    warm_up_seconds: float
    ended: str
    first: Tenth
    last: Tenth
    samples: list[Sample]


def main() -> None:
    options = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine = read_machine()
    result = soak(options.minutes, options.warm_up)
    if result is None:
        say("ended before there was anything to compare")
        sys.exit(1)
    title = f"{result.minutes:.1f} minutes of 1,000 events/s, after {result.warm_up_seconds:.0f} s of warm-up"
    Console(width=WIDTH).print(tenths_table(result.first, result.last, title))
    write_report(options.json, machine, soak=asdict(result))
    say(f"written: {options.json}")
    if result.ended and result.ended != INTERRUPTED:
        sys.exit(1)


def soak(minutes: float, warm_up_seconds: float) -> SoakResult | None:
    """None where it ended before its first two samples."""
    with scratch(0) as place:
        settings = place.settings_for("soak")
        create_topics(settings.kafka.model_copy(update={"retention_hours": KAFKA_HOURS}))
        ended, sampler, began = "", None, time.time()
        try:
            with (
                live_run(settings, ONCALL__ENABLED="false") as run,
                publishing(pace, settings.kafka, 2 * minutes * MINUTE + warm_up_seconds + 600) as pacer,
            ):
                run.wait_until_written(settings.paths.checkpoints)
                say(f"soak: warming up for {warm_up_seconds:.0f} s")
                run.sleep(warm_up_seconds)
                sampler, began = Sampler(settings, run.pid), time.time()
                every = min(MOST_SECONDS_A_SAMPLE, minutes * MINUTE / 10 / SAMPLES_A_TENTH)
                while (left := began + minutes * MINUTE - time.time()) > 0:
                    run.sleep(min(every, left))
                    if not pacer.is_alive():
                        raise ServiceEndedError("the process that publishes the events ended by itself")
                    sampler.sample()
                    _report(sampler, began, minutes)
        except KeyboardInterrupt:
            ended = INTERRUPTED
            say("soak: ended by Ctrl-C")
        except (ServiceEndedError, TimeoutError) as error:
            ended = str(error)
            say(f"soak: {error}")
        if sampler is None or len(sampler.samples) < 2:
            return None
        last = sampler.samples[-1].at
        first_tenth, last_tenth = (
            tenth_of(span, sampler.samples, sampler.flips_ms, sampler.alerts_ms)
            for span in first_and_last_tenth(began, last)
        )
        return SoakResult((last - began) / MINUTE, warm_up_seconds, ended, first_tenth, last_tenth, sampler.samples)


def _report(sampler: Sampler, began: float, minutes: float) -> None:
    """Print a line when a minute is full: the latency of its rows, and the newest sample."""
    sample = sampler.samples[-1]
    before = sampler.samples[-2].at if len(sampler.samples) > 1 else began
    minute = int((sample.at - began) / MINUTE)
    if minute == int((before - began) / MINUTE):
        return
    recent = percentiles_of(ms for at, ms in sampler.flips_ms if at >= sample.at - MINUTE)
    say(
        f"soak {minute}/{minutes:g} min: p50 {recent.p50:,.0f} ms, p95 {recent.p95:,.0f} ms; "
        f"{sum(sample.cores.values()):.2f} cores, {sum(sample.memory_mib.values()):,.0f} MiB, "
        f"{max(sample.small_files.values(), default=0)} small files in a table at most, "
        f"state {sample.state.bytes / 1e6:,.1f} MB in {sample.state.files:,} files"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.soak",
        description=(__doc__ or "").split(": ", 1)[1],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=_positive, default=60.0, help="to measure (default: %(default)g)")
    parser.add_argument(
        "--warm-up", type=_positive, default=60.0, metavar="SECONDS", help="before that (default: %(default)g)"
    )
    parser.add_argument("--json", type=Path, default=Path(".bench/soak.json"), help="default: %(default)s")
    return parser.parse_args()


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number above 0")
    return value


if __name__ == "__main__":
    main()
