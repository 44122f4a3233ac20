"""The board for Grafana: its form, its expressions by promtool, and its names and units by our list of metrics.

There is no Grafana here: the form is that of what we use of its dashboard model, schema version 41.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

from streaming.metrics.names import METRICS, Metric
from tests.conf.test_prometheus import LABELS, PROMETHEUS_OWN, SERIES, names_in

BOARD = Path(__file__).parents[2] / "conf" / "grafana.json"


RAW = json.loads(BOARD.read_text())
ROWS = [panel for panel in RAW["panels"] if panel["type"] == "row"]
PANELS = [panel for panel in RAW["panels"] if panel["type"] != "row"]
TARGETS = [(panel, target) for panel in PANELS for target in panel["targets"]]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
DEFAULTS = {"unit", "min", "color", "thresholds", "custom"}
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
    assert (RAW["uid"], RAW["schemaVersion"]) == ("balancewatch", 41)
    ids = [panel["id"] for panel in RAW["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel.keys() == {"id", "type", "title", "collapsed", "gridPos", "panels"} for panel in ROWS)


def test_a_panel_has_the_form_that_grafana_reads(subtests: pytest.Subtests) -> None:
    keys = {"id", "type", "title", "description", "datasource", "gridPos", "fieldConfig", "options", "targets"}
    for panel in PANELS:
        with subtests.test(panel["title"]):
            assert panel.keys() == keys
            assert panel["type"] in ("stat", "timeseries")
            assert panel["datasource"] == SOURCE
            assert panel["targets"]
            defaults = panel["fieldConfig"]["defaults"]
            assert DEFAULTS <= defaults.keys() <= DEFAULTS | {"decimals"}
            assert defaults["unit"] in ("short", "s", "bytes", "ops", "percentunit")
            assert defaults["thresholds"]["mode"] == "absolute"
            assert all(step.keys() == {"color", "value"} for step in defaults["thresholds"]["steps"])
    for panel, target in TARGETS:
        with subtests.test(panel["title"], target=target["refId"]):
            assert target.keys() == {"refId", "datasource", "expr", "legendFormat", "range", "instant"}
            assert target["datasource"] == SOURCE


def test_no_panel_lies_on_another() -> None:
    seen: set[tuple[int, int]] = set()
    for panel in RAW["panels"]:
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        cells = {(x + right, y + down) for right in range(width) for down in range(height)}
        assert cells
        assert 0 <= x <= x + width <= 24
        assert not cells & seen
        seen |= cells


def test_the_rows_follow_the_way_of_the_data_back_from_people() -> None:
    assert [panel["title"] for panel in ROWS] == [
        "Now",
        "Verdicts",
        "Alerts",
        "Deliveries",
        "Queries",
        "Kafka and time",
        "State and process",
    ]


def test_variables_are_asked_of_metrics_and_labels_that_there_are() -> None:
    asked = {one["name"]: one["query"]["query"] for one in RAW["templating"]["list"] if one["type"] == "query"}
    assert asked.keys() == {"cluster", "consumer_group"}
    for query in asked.values():
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found is not None
        assert names_in(plain(found[1])).metrics <= SERIES
        assert found[2] in LABELS


def test_a_panel_reads_only_what_there_is(subtests: pytest.Subtests) -> None:
    for panel, target in TARGETS:
        with subtests.test(panel["title"], target=target["refId"]):
            names = names_in(target["expr"])
            assert names.metrics <= SERIES | PROMETHEUS_OWN
            assert names.labels <= LABELS
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= LABELS
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= {"cluster", "consumer_group", "__rate_interval"}


def test_a_panels_unit_is_its_metrics(subtests: pytest.Subtests) -> None:
    """A rate of a counter is a number a second; quantiles and quotients of seconds are seconds."""
    for panel, target in TARGETS:
        for name in sorted(names_in(target["expr"]).metrics & BY_SERIES.keys()):
            metric = BY_SERIES[name]
            unit = metric.name.rpartition("_")[2]
            is_rate = metric.name.endswith("_per_second") or ("rate(" in target["expr"] and unit != "seconds")
            expected = "ops" if is_rate else UNITS.get(unit, "short")
            with subtests.test(panel["title"], metric=name):
                assert panel["fieldConfig"]["defaults"]["unit"] == expected


def test_every_listed_metric_is_on_the_board_but_those_for_rules_alone() -> None:
    drawn = {BY_SERIES[name] for _, target in TARGETS for name in names_in(target["expr"]).metrics & BY_SERIES.keys()}
    assert {one.name for one in METRICS if one not in drawn} == {
        "balancewatch_producers",
        "balancewatch_canary_interval_seconds",
        "balancewatch_build_info",
    }


@pytest.mark.real
def test_promtool_takes_every_expression(tmp_path: Path) -> None:
    expressions = [plain(target["expr"]) for _, target in TARGETS]
    expressions += [one["expr"] for one in RAW["annotations"]["list"]]
    rules = [{"record": f"panel:number_{number}:x", "expr": expr} for number, expr in enumerate(expressions)]
    path = tmp_path / "board.yml"
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
