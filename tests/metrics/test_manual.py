"""The page that the rules' runbooks point to is what the list says."""

from streaming.manual.metrics_page import PAGE, page
from streaming.metrics.names import METRICS


def test_the_page_is_current() -> None:
    """Written by `python -m streaming.manual.metrics_page`."""
    assert PAGE.read_text() == page()


def test_every_metric_has_a_heading() -> None:
    headings = {line.removeprefix("### ") for line in page().splitlines() if line.startswith("### ")}
    assert headings == {one.name for one in METRICS}
