"""The rules for Prometheus: their syntax and their firing by promtool, their names and runbooks by our list."""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from ruamel.yaml import YAML

from conf.settings import Settings
from streaming.metrics.liveness import PHASES
from streaming.metrics.names import METRICS
from streaming.metrics.tables import VERDICTS
from streaming.relay.notice import Outcome
from streaming.relay.receivers.posting import Verdict
from tests.support.offenders import assert_none
from udfs.alerts.firing_limit import SEVERITIES
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.runbook import CAUSES
from udfs.alerts.self_kinds import RELAY_KINDS

_STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"\[[^\[\]]*\]|\boffset\s+\w+")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_WORDS = {"and", "or", "unless", "bool", "by", "without", "on", "ignoring", "inf", "nan"}


@dataclass(frozen=True)
class Names:
    """Of one expression."""

    metrics: frozenset[str]
    labels: frozenset[str]


def names_in(expression: str) -> Names:
    """Function names are left out; so are strings, ranges and numbers."""
    text = _STRING.sub('""', expression)
    labels = {label for inside in _BRACES.findall(text) for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside)}
    text = _RANGE.sub("", _BRACES.sub("", text))
    labels |= {label for inside in _GROUPING.findall(text) for label in _NAME.findall(inside)}
    text = _GROUPING.sub(" ", text)
    called = set(re.findall(r"([A-Za-z_]\w*)\s*\(", text))
    words = set(_NAME.findall(re.sub(r"\b\d[\w.]*", "", text)))
    return Names(frozenset(words - called - _WORDS), frozenset(labels))


CONF = Path(__file__).parents[2] / "conf"
FILES = [CONF / "prometheus.rules.yml", CONF / "prometheus.product.rules.yml"]
TESTS = sorted(Path(__file__).parent.glob("prometheus.*.test.yml"))


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


GROUPS = [group for file in FILES for group in read(file)["groups"]]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]

PROMETHEUS_OWN = {"up", "process_start_time_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes"}
OF_SCRAPES = {"job", "instance", "le"}

LABELS = {label for one in METRICS for label in one.labels} | OF_SCRAPES
RECORDED = {rule["record"] for rule in RULES if "record" in rule}

VALUES: dict[str, set[str]] = {
    "kind": set(KIND_FACTS) | RELAY_KINDS,
    "phase": set(PHASES),
    "outcome": set(get_args(Verdict)) | set(get_args(Outcome)),
    "verdict": set(VERDICTS),
    "state": {"PENDING", "FIRING", "RECOVERING", "UNKNOWN"},
    "severity": set(SEVERITIES),
    "is_inhibited": {"true", "false"},
}
"""What a label can be; one that is not here is a name from outside."""

OF_SERIES = {
    name: {*one.labels, "job", "instance", *(["le"] if name.endswith("_bucket") else [])}
    for one in METRICS
    for name in ([f"{one.name}_{end}" for end in ("bucket", "sum", "count")] if one.kind == "histogram" else [one.name])
}
SERIES = OF_SERIES.keys()


def labels_of(metric: str) -> set[str]:
    """What a series of that name carries; a recorded one what its own rule leaves."""
    for rule in RULES:
        if rule.get("record") == metric:
            return set(re.findall(r"\w+", re.findall(r"\bby \(([^)]*)\)", rule["expr"])[0])) - {"le"}
    return OF_SERIES.get(metric, {"job", "instance"})


def labels_of_any(metrics: Iterable[str]) -> set[str]:
    return {label for metric in metrics for label in labels_of(metric)}


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


def promtool(*arguments: str, text: str | None = None) -> str:
    done = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.real
def test_promtool_takes_the_rules_without_a_remark() -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", *map(str, FILES))
    assert said.count("SUCCESS") == len(FILES)


@pytest.mark.real
def test_the_rules_fire_when_they_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", *map(str, TESTS))


def test_a_rule_reads_only_what_there_is(subtests: pytest.Subtests) -> None:
    for rule in RULES:
        with subtests.test(name_of(rule)):
            names = names_in(rule["expr"])
            assert names.metrics
            assert names.metrics <= SERIES | RECORDED | PROMETHEUS_OWN
            assert names.labels <= labels_of_any(names.metrics)


def test_a_selector_asks_its_own_metric_for_labels_and_values_that_it_has(subtests: pytest.Subtests) -> None:
    for rule in RULES:
        for metric, selector in re.findall(r"([a-z_][\w:]*)\{([^}]*)\}", rule["expr"]):
            with subtests.test(name_of(rule), metric=metric):
                for label, operator, text in re.findall(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"", selector):
                    assert label in labels_of(metric), f"{metric} has no {label}"
                    values = set(text.split("|") if "~" in operator else [text])
                    assert values <= VALUES.get(label, values), f"{label} is never {text}"


def test_what_the_rules_ask_by_value_is_of_a_known_vocabulary() -> None:
    asked = {label for rule in RULES for label in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', rule["expr"])}
    assert asked <= VALUES.keys() | {"job", "le"}


def test_an_alert_says_what_is_so_what_follows_and_where_to_read_on(subtests: pytest.Subtests) -> None:
    runbooks, root = (CONF.parent / "streaming/metrics/README.md").read_text(), Settings.load().runbooks_url
    for rule in ALERTS:
        with subtests.test(rule["alert"]):
            assert set(rule["annotations"]) == {"summary", "description", "runbook", "runbook_url"}
            file, _, anchor = rule["annotations"]["runbook"].partition("#")
            assert file == "streaming/metrics/README.md"
            assert f"### {anchor}\n" in runbooks
            assert rule["annotations"]["runbook_url"] in {
                f"{root}/{name}" for name in (f"metrics#{anchor}", "{{ $labels.kind }}", *CAUSES)
            }
            given = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
            metrics = names_in(rule["expr"]).metrics
            assert given <= labels_of_any(metrics)


def test_an_alert_is_tried_where_it_fires() -> None:
    tests = [test for file in TESTS for test in read(file)["tests"]]
    tried = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert_none(rule["alert"] for rule in ALERTS if rule["alert"] not in tried)


def test_what_pages_instead_of_the_relay_is_in_a_file_of_its_own_and_marked() -> None:
    """Nobody hears things twice who loads only the rules about the service."""
    reported_by = {file.name: [rule for group in read(file)["groups"] for rule in group["rules"]] for file in FILES}
    marked = {
        name: {rule.get("labels", {}).get("notified_by") for rule in rules} for name, rules in reported_by.items()
    }
    assert marked == {"prometheus.rules.yml": {None}, "prometheus.product.rules.yml": {"prometheus"}}
    about_rocketmq = {"balancewatch_queues", "balancewatch_incidents", "balancewatch_unavailable_producers"}
    assert not any(
        names_in(rule["expr"]).metrics & about_rocketmq
        for rule in reported_by["prometheus.rules.yml"]
        if "alert" in rule
    )


@pytest.mark.parametrize(
    ("expression", "metrics", "labels"),
    [
        ('sum by (job) (rate(a_total{x="b c"}[5m])) / (b > 0)', {"a_total", "b"}, {"job", "x"}),
        ("a > on (job) (2 * b + 60 and b offset 1d > 1e9) or vector(0)", {"a", "b"}, {"job"}),
        (
            'histogram_quantile(0.95, sum by (le) (rate(a_bucket{y!~"z|{}"}[$__rate_interval])))',
            {"a_bucket"},
            {"le", "y"},
        ),
        ("job:a:sum", {"job:a:sum"}, set()),
    ],
)
def test_names_are_found_in_an_expression(expression: str, metrics: set[str], labels: set[str]) -> None:
    names = names_in(expression)
    assert (names.metrics, names.labels) == (metrics, labels)
