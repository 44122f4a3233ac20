"""The page streaming/metrics/README.md, from the list of metrics. The Prometheus rules link to its headings."""

from collections.abc import Iterator
from pathlib import Path

from streaming.metrics.names import HEALTH, METRICS, VERDICTS, Counter, Histogram, Metric
from tests.manual.block import markdown_table

PAGE = Path(__file__).parents[2] / "streaming" / "metrics" / "README.md"

OPENING = """\
# Metrics

The Prometheus metrics of `run` and `relay`, for operators: the `runbook` links of the Prometheus rules lead here.
`make docs` writes this page from `streaming/metrics/names.py`. `/metrics` also has the Python client's `process_*` and
`python_gc_*`.

A counter starts at 0 with each process. A gauge without labels is NaN until it is set. The canary's cluster is in no
verdict metric. If `relay` runs as a separate process, it exports the delivery and canary metrics, and `run` the others.
"""


def page() -> str:
    """Return the page's text."""
    overview = markdown_table(
        ("metric", "kind", "unit", "labels"),
        [(f"[`{one.name}`](#{one.name})", kind_of(one), one.unit, _labels(one)) for one in METRICS],
    )
    parts = [OPENING, overview, "\n## Queues, groups, brokers and alerts\n", *_sections(VERDICTS)]
    parts += ["## Service health\n", *_sections(HEALTH)]
    return "\n".join(parts).rstrip("\n").replace("\n\n\n", "\n\n") + "\n"


def kind_of(metric: Metric) -> str:
    return "counter" if isinstance(metric, Counter) else "histogram" if isinstance(metric, Histogram) else "gauge"


def _sections(metrics: tuple[Metric, ...]) -> Iterator[str]:
    for one in metrics:
        labels = f", by {_labels(one)}" if one.labels else ""
        yield f"### {one.name}\n\n{one.says}\n\n*{kind_of(one)}, {one.unit}{labels}*\n"
        yield f"**When it rises.** {one.rises}\n"


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)
