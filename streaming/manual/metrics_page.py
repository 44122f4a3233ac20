"""`python -m streaming.manual.metrics_page`: write streaming/metrics/README.md from the list of the metrics.

The rules of Prometheus point to its headings. With --check it only says whether the page is what it would write.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from streaming.manual.block import markdown_table
from streaming.metrics.metric import Counter, Histogram, Metric
from streaming.metrics.names import HEALTH, METRICS, VERDICTS

PAGE = Path(__file__).parents[1] / "metrics" / "README.md"

OPENING = """\
# The metrics

What `/metrics` says, one heading a metric: the page that a Prometheus rule's `runbook` points to. It is written by
`python -m streaming.manual.metrics_page` from `streaming/metrics/verdict_names.py` and `health_names.py`; a test holds
it current. Beside these there are the client's own `process_*` and `python_gc_*`, of the Python process.

A counter begins at 0 with each start. A gauge without labels that nobody has set yet is NaN. The canary's own cluster
is in none of the verdicts. Where `relay` is a process of its own, deliveries and the canary are in its metrics, the
rest in `run`'s.
"""


def page() -> str:
    """All of it."""
    return (
        "\n".join(
            [
                OPENING,
                overview_table(),
                "\n## What RocketMQ's queues, groups and brokers are like\n",
                *_sections(VERDICTS),
                "## Whether balancewatch is well\n",
                *_sections(HEALTH),
            ]
        )
        .rstrip("\n")
        .replace("\n\n\n", "\n\n")
        + "\n"
    )


def overview_table() -> str:
    """Each metric with its kind, unit and labels."""
    return markdown_table(
        ("metric", "kind", "unit", "labels"),
        [(f"[`{one.name}`](#{one.name})", kind_of(one), one.unit, _labels(one)) for one in METRICS],
    )


def kind_of(metric: Metric) -> str:
    return "counter" if isinstance(metric, Counter) else "histogram" if isinstance(metric, Histogram) else "gauge"


def _sections(metrics: tuple[Metric, ...]) -> Iterator[str]:
    for one in metrics:
        labels = f", by {_labels(one)}" if one.labels else ""
        yield f"### {one.name}\n\n{one.says}\n\n*{kind_of(one)}, {one.unit}{labels}*\n"
        yield f"**When it rises.** {one.rises}\n"


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)


def main() -> None:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit(f"error: {PAGE.name} of the metrics is stale; run `python -m streaming.manual.metrics_page`")


if __name__ == "__main__":
    main()
