"""Data Docs: the suites and the newest outcomes as static pages, rendered by Great Expectations from the table.

Its pages take their styles, fonts and scripts from other people's servers, and are bare without them. All that is
taken out, and one small style sheet of ours put in: they read without the internet, and tell nobody that they are read.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.render.renderer.page_renderer import ExpectationSuitePageRenderer, ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView

from schemas.expectations import Suite
from schemas.suites import SUITES
from streaming.quality.validator import open_context, suite_as_gx
from streaming.text.times import time_text, to_ms
from streaming.text.visible_text import visible

STYLES = Path(__file__).with_name("docs.css")

Rows = Mapping[tuple[str, str], Mapping[str, Any]]
"""The newest row of the table `quality` by suite and expectation; times are aware datetimes."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for a page: nothing. What events hold is shown in them, and nobody vouches for that."""

_FOREIGN = re.compile(
    r"<script\b.*?</script>|<footer\b.*?</footer>|<style\b.*?</style>|<(?:link|img|meta)\b[^>]*>"
    r'|<nav class="navbar.*?</nav>\s*</div>\s*</nav>',
    re.DOTALL,
)
_ACTIONS = re.compile(r'<div class="card mb-3">.*?</div>\s*</div>\s*</div>\s*</div>\s*</div>', re.DOTALL)
"""Buttons that nothing stands behind without scripts."""

_SUITE_LINK = re.compile(r'href="[./]*expectations/[^"]*"')
_HEAD = re.compile(r"<title>.*</head>", re.DOTALL)


def write_docs(out: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the pages under `out`, in place of those that are there; the path of the first one. Raises OSError."""
    newest = {(row["suite"], row["expectation"]): row for row in rows}
    context = open_context()
    of_suite: Any = ExpectationSuitePageRenderer()
    of_result: Any = ValidationResultsPageRenderer()
    view: Any = DefaultJinjaPageView()
    pages = {"index.html": _index(newest)}
    for suite in SUITES.values():
        declared = context.suites.add(suite_as_gx(suite))
        expectations = view.render(of_suite.render(declared))
        pages[f"expectations/{suite.name}.html"] = _page(expectations, suite, f"Expectations of {suite.name}")
        result = _result_of(suite, newest)
        if result is not None:
            shown = view.render(of_result.render(result))
            pages[f"results/{suite.name}.html"] = _page(shown, suite, f"Newest results of {suite.name}")
    for name, text in pages.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(visible(text), encoding="utf-8")
    for folder in ("expectations", "results"):
        for path in (out / folder).glob("*.html"):
            if f"{folder}/{path.name}" not in pages and POLICY in path.read_text(encoding="utf-8", errors="replace"):
                path.unlink()  # a page of ours, of an earlier time
    return out / "index.html"


def _result_of(suite: Suite, newest: Rows) -> ExpectationSuiteValidationResult | None:
    """The suite's outcomes as Great Expectations' own result; None before the first."""
    declared = suite_as_gx(suite)
    found = [
        (row, ours, theirs)
        for ours, theirs in zip(suite.expectations, declared.expectations, strict=True)
        if (row := newest.get((suite.name, ours.name))) is not None
    ]
    if not found:
        return None
    results = [
        ExpectationValidationResult(
            success=bool(row["success"]), expectation_config=theirs.configuration, result=_counts_of(row)
        )
        for row, _, theirs in found
    ]
    successful = sum(bool(row["success"]) for row, _, _ in found)
    return ExpectationSuiteValidationResult(
        success=successful == len(found),
        results=results,
        suite_name=suite.name,
        statistics={
            "evaluated_expectations": len(found),
            "successful_expectations": successful,
            "unsuccessful_expectations": len(found) - successful,
            "success_percent": 100 * successful / len(found),
        },
        meta={
            "great_expectations_version": version("great-expectations"),
            "run_id": RunIdentifier(run_name=suite.topic, run_time=max(row["validated_at"] for row, _, _ in found)),
        },
    )


def _counts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    percent = 100 * (row["unexpected_share"] or 0.0)
    return {
        "element_count": row["evaluated"] or 0,
        "unexpected_count": row["unexpected"] or 0,
        "unexpected_percent": percent,
        "unexpected_percent_total": percent,
        "unexpected_percent_nonmissing": percent,
        "missing_count": 0,
        "missing_percent": 0.0,
        "partial_unexpected_list": [html.escape(value) for value in row["observed"] or ()],
    }


def _counted(row: Mapping[str, Any]) -> str:
    """An old row may lack the counts."""
    unexpected, rows = (f"{row[name]:,}" if row[name] is not None else "?" for name in ("unexpected", "evaluated"))
    return f"{unexpected} of {rows}"


def _page(rendered: str, suite: Suite, title: str) -> str:
    """What was rendered, without what it would load, and with links to our own pages."""
    bare = _ACTIONS.sub("", _FOREIGN.sub("", rendered))
    bare = _SUITE_LINK.sub(f'href="../expectations/{suite.name}.html"', bare)
    bare = _HEAD.sub(lambda _: _head(title), bare, count=1)
    return bare.replace("<body>", f'<body>\n<p><a href="../index.html">All suites</a></p>\n<h1>{title}</h1>', 1)


def _head(title: str) -> str:
    return (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLES.read_text()}</style>\n</head>"
    )


def _index(newest: Rows) -> str:
    lines = "\n".join(_index_line(suite, newest) for suite in SUITES.values())
    made = time_text(to_ms(datetime.now(UTC)))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{_head("Data expectations")}\n<body>\n'
        f"<h1>Data expectations</h1>\n<p>Generated {made} by Great Expectations from the newest results.</p>\n"
        "<table>\n<thead><tr><th>suite</th><th>result</th><th class='number'>pass</th><th class='number'>fail</th>"
        "<th>failing expectations</th><th>validated</th></tr></thead>\n"
        f"<tbody>\n{lines}\n</tbody>\n</table>\n</body>\n</html>\n"
    )


def _index_line(suite: Suite, newest: Rows) -> str:
    found = [newest[suite.name, one.name] for one in suite.expectations if (suite.name, one.name) in newest]
    failed: Sequence[Mapping[str, Any]] = [row for row in found if not row["success"]]
    name = f'<a href="expectations/{suite.name}.html">{suite.name}</a>'
    if not found:
        return f"<tr><td>{name}</td><td>not validated yet</td><td></td><td></td><td></td><td></td></tr>"
    word = '<span class="text-danger">fails</span>' if failed else '<span class="text-success">passes</span>'
    says = "<br>".join(html.escape(f"{row['description'] or row['expectation']} ({_counted(row)})") for row in failed)
    at = time_text(to_ms(max(row["validated_at"] for row in found)))
    return (
        f'<tr><td>{name}</td><td><a href="results/{suite.name}.html">{word}</a></td>'
        f'<td class="number">{len(found) - len(failed)}</td><td class="number">{len(failed)}</td>'
        f"<td>{says}</td><td>{at}</td></tr>"
    )
