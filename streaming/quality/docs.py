"""Data Docs: the suites and their newest results as static pages, built by Great Expectations from the table `quality`.

Its pages load styles, fonts and scripts from other servers. These references are removed, and a policy forbids any
loading: the pages are unstyled, need no internet, and run nothing that an event may contain.
"""

import html
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context.types.resource_identifiers import (
    ExpectationSuiteIdentifier,
    ValidationResultIdentifier,
)

from schemas.expectations import Suite
from schemas.suites import SUITES
from streaming.quality.validator import open_context, suite_as_gx
from streaming.text.visible_text import visible

SITE = "balancewatch"

Rows = Mapping[tuple[str, str], Mapping[str, Any]]
"""The newest row of the table `quality` by suite and expectation; times are aware datetimes."""

HEAD = (
    '<head>\n<meta charset="utf-8">\n'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    '<meta name="generator" content="balancewatch quality docs">\n'
)

_FOREIGN = re.compile(
    r"<script\b.*?</script>|<style\b.*?</style>|<footer\b.*?</footer>|<(?:link|img|meta)\b[^>]*>|\s+on\w+=\"[^\"]*\"",
    re.DOTALL,
)
_FOREIGN_LINK = re.compile(r'href="https?://[^"]*"')


def write_docs(out: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the pages under `out` in place of its earlier pages, and return the path of the first. Raises OSError."""
    newest = {(row["suite"], row["expectation"]): row for row in rows}
    context: Any = open_context()
    for suite in SUITES.values():
        context.suites.add(suite_as_gx(suite))
        if (result := _result_of(suite, newest)) is not None:
            key = ValidationResultIdentifier(ExpectationSuiteIdentifier(suite.name), result.meta["run_id"], "newest")
            context.validation_results_store.set(key, result)
    with TemporaryDirectory() as built:
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": built}
        context.add_data_docs_site(SITE, {"class_name": "SiteBuilder", "store_backend": store})
        context.build_data_docs(site_names=[SITE])
        pages = {
            page.relative_to(built).as_posix(): page.read_text(encoding="utf-8") for page in Path(built).rglob("*.html")
        }
    pages["index.html"] = _index(pages, newest)
    for path in list(out.rglob("*.html")):
        if HEAD in path.read_text(encoding="utf-8", errors="replace"):
            path.unlink()  # a page of an earlier call
            for folder in path.relative_to(out).parents[:-1]:
                with suppress(OSError):  # a folder with other files stays
                    (out / folder).rmdir()
    for name, text in pages.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        bare = _FOREIGN_LINK.sub('href="#"', _FOREIGN.sub("", text))
        (out / name).write_text(visible(bare.replace("<head>", HEAD, 1)), encoding="utf-8")
    return out / "index.html"


def _index(pages: Iterable[str], newest: Rows) -> str:
    """Return the first page; the builder's own one lists nothing without its scripts."""
    lines = ["<h1>Data expectations</h1>"]
    for suite in SUITES.values():
        path = suite.name.replace(".", "/")
        results = [page for page in pages if page.startswith(f"validations/{path}/{suite.topic}/")]
        links = [(f"expectations/{path}.html", suite.name), *((page, "newest result") for page in results)]
        found = [row for known in suite.expectations if (row := newest.get((suite.name, known.name)))]
        failing = [row for row in found if not row["success"]]
        lines += ["<h2>", *(f'<a href="{page}">{text}</a>' for page, text in links), "</h2>"]
        state = f"{len(failing)} of {len(found)} expectations fail" if found else "not validated yet"
        lines.append(f"<p>{state}</p>")
        for row in failing:
            counts = f"{row['unexpected']:,} of {row['evaluated']:,}"
            lines.append(f"<p>{html.escape(row['description'])} ({counts})</p>")
    head = '<!DOCTYPE html>\n<html lang="en">\n<head><title>Data expectations</title>\n</head>\n<body>'
    return "\n".join([head, *lines, "</body>\n</html>\n"])


def _result_of(suite: Suite, newest: Rows) -> ExpectationSuiteValidationResult | None:
    """Return the suite's newest rows as a result of Great Expectations; None before the first."""
    found = [
        (row, gx.configuration)
        for expectation, gx in zip(suite.expectations, suite_as_gx(suite).expectations, strict=True)
        if (row := newest.get((suite.name, expectation.name))) is not None
    ]
    if not found:
        return None
    successful = sum(bool(row["success"]) for row, _ in found)
    results = []
    for row, configuration in found:
        percent = 100 * row["unexpected_share"]
        counts = {
            "element_count": row["evaluated"],
            "unexpected_count": row["unexpected"],
            "unexpected_percent": percent,
            "unexpected_percent_total": percent,
            "unexpected_percent_nonmissing": percent,
            "missing_count": 0,
            "missing_percent": 0.0,
            "partial_unexpected_list": [html.escape(value) for value in row["observed"]],
        }
        results.append(
            ExpectationValidationResult(success=bool(row["success"]), expectation_config=configuration, result=counts)
        )
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
            "run_id": RunIdentifier(run_name=suite.topic, run_time=max(row["validated_at"] for row, _ in found)),
        },
    )
