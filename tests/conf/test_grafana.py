"""The board for Grafana: its form, its expressions by promtool, and its names and units by our list of metrics.

There is no Grafana here: the form is that of what we use of its dashboard model, schema version 41.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from streaming.metrics.names import METRICS, Metric
from tests.conf.promql import names_in
from tests.conf.test_prometheus import LABELS, PROMETHEUS_OWN, SERIES

BOARD = Path(__file__).parents[2] / "conf" / "grafana.json"


class Place(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    h: Annotated[int, msgspec.Meta(ge=1)]
    w: Annotated[int, msgspec.Meta(ge=1, le=24)]
    x: Annotated[int, msgspec.Meta(ge=0, le=23)]
    y: Annotated[int, msgspec.Meta(ge=0)]


class Source(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    type: Literal["prometheus"]
    uid: Literal["${datasource}"]


class Target(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    ref_id: str
    datasource: Source
    expr: Annotated[str, msgspec.Meta(min_length=1)]
    legend_format: str
    range: bool
    instant: bool


class Step(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    color: str
    value: float | None


class Thresholds(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    mode: Literal["absolute"]
    steps: Annotated[list[Step], msgspec.Meta(min_length=1)]


class Defaults(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    unit: Literal["short", "s", "bytes", "ops", "percentunit"]
    min: int
    color: dict[str, str]
    thresholds: Thresholds
    custom: dict[str, Any]
    decimals: int = 0


class Fields(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    defaults: Defaults
    overrides: list[Any]


class Row(msgspec.Struct, forbid_unknown_fields=True, rename="camel", tag_field="type", tag="row"):
    id: int
    title: str
    collapsed: bool
    grid_pos: Place
    panels: list[Any]


class Drawn(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    id: int
    title: Annotated[str, msgspec.Meta(min_length=1)]
    description: str
    datasource: Source
    grid_pos: Place
    field_config: Fields
    options: dict[str, Any]
    targets: Annotated[list[Target], msgspec.Meta(min_length=1)]


class Stat(Drawn, tag_field="type", tag="stat"):
    """One number."""


class Lines(Drawn, tag_field="type", tag="timeseries"):
    """A graph."""


class Variable(msgspec.Struct, rename="camel"):
    name: str
    type: Literal["datasource", "query"]
    query: Any
    include_all: bool


class Templating(msgspec.Struct):
    list: list[Variable]


class Board(msgspec.Struct, rename="camel"):
    uid: str
    title: str
    schema_version: Literal[41]
    templating: Templating
    panels: list[Row | Stat | Lines]


RAW = json.loads(BOARD.read_text())
READ = msgspec.json.decode(BOARD.read_bytes(), type=Board)
PANELS = [panel for panel in READ.panels if not isinstance(panel, Row)]
TARGETS = [(panel, target) for panel in PANELS for target in panel.targets]
BY_SERIES: dict[str, Metric] = {
    series: one
    for one in METRICS
    for series in (one.name, *(f"{one.name}_{end}" for end in ("bucket", "sum", "count")))
}
UNITS = {"seconds": "s", "bytes": "bytes"}


def plain(expression: str) -> str:
    """With Grafana's variables replaced, as Prometheus gets it."""
    return expression.replace("$__rate_interval", "5m").replace("$cluster", ".*").replace("$consumer_group", ".*")


def test_the_board_can_be_provisioned() -> None:
    assert "id" not in RAW
    assert RAW["uid"] == "balancewatch"
    ids = [panel.id for panel in READ.panels]
    assert len(set(ids)) == len(ids)


def test_no_panel_lies_on_another() -> None:
    seen: set[tuple[int, int]] = set()
    for panel in READ.panels:
        place = panel.grid_pos
        cells = {(x, y) for x in range(place.x, place.x + place.w) for y in range(place.y, place.y + place.h)}
        assert place.x + place.w <= 24
        assert not cells & seen
        seen |= cells


def test_the_rows_follow_the_way_of_the_data_back_from_people() -> None:
    assert [panel.title for panel in READ.panels if isinstance(panel, Row)] == [
        "Now",
        "Verdicts",
        "Alerts",
        "Deliveries",
        "Queries",
        "Kafka and time",
        "State and process",
    ]


def test_variables_are_asked_of_metrics_and_labels_that_there_are() -> None:
    asked = {one.name: one.query["query"] for one in READ.templating.list if one.type == "query"}
    assert asked.keys() == {"cluster", "consumer_group"}
    for query in asked.values():
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found is not None
        assert names_in(plain(found[1])).metrics <= SERIES
        assert found[2] in LABELS


def test_a_panel_reads_only_what_there_is(subtests: pytest.Subtests) -> None:
    for panel, target in TARGETS:
        with subtests.test(panel.title, target=target.ref_id):
            names = names_in(target.expr)
            assert names.metrics <= SERIES | PROMETHEUS_OWN
            assert names.labels <= LABELS
            assert set(re.findall(r"\{\{(\w+)\}\}", target.legend_format)) <= LABELS
            assert set(re.findall(r"\$(\w+)", target.expr)) <= {"cluster", "consumer_group", "__rate_interval"}


def test_a_panels_unit_is_its_metrics(subtests: pytest.Subtests) -> None:
    """A rate of a counter is a number a second; quantiles and quotients of seconds are seconds."""
    for panel, target in TARGETS:
        for name in sorted(names_in(target.expr).metrics & BY_SERIES.keys()):
            metric = BY_SERIES[name]
            unit = metric.name.rpartition("_")[2]
            is_rate = metric.name.endswith("_per_second") or ("rate(" in target.expr and unit != "seconds")
            expected = "ops" if is_rate else UNITS.get(unit, "short")
            with subtests.test(panel.title, metric=name):
                assert panel.field_config.defaults.unit == expected


def test_every_listed_metric_is_on_the_board_but_those_for_rules_alone() -> None:
    drawn = {BY_SERIES[name] for _, target in TARGETS for name in names_in(target.expr).metrics & BY_SERIES.keys()}
    assert {one.name for one in METRICS if one not in drawn} == {
        "balancewatch_producers",
        "balancewatch_canary_interval_seconds",
        "balancewatch_build_info",
    }


@pytest.mark.real
def test_promtool_takes_every_expression(tmp_path: Path) -> None:
    expressions = [plain(target.expr) for _, target in TARGETS]
    expressions += [one["expr"] for one in RAW["annotations"]["list"]]
    rules = [{"record": f"panel:number_{number}:x", "expr": expr} for number, expr in enumerate(expressions)]
    path = tmp_path / "board.yml"
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
