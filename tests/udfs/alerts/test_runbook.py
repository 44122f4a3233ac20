"""Each kind of alert has a runbook, in it each of its causes; what it asks of mqadmin is there in 4.9.8 and 5.5.0."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.collector.rocketmq_jvm import RocketMQJvm
from streaming.quality import inspector
from streaming.relay import own_alerts
from streaming.self_monitoring import data_loss
from tests.support.offenders import assert_none
from udfs.alerts.kinds import KIND_FACTS
from udfs.alerts.runbook import CAUSES, runbook_url
from udfs.alerts.self_kinds import RELAY_KINDS, SELF_FACTS
from udfs.brokers import cluster_findings, mute_brokers
from udfs.groups.findings import brokers, queues
from udfs.producers import findings as of_producers

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "udfs" / "alerts" / "runbooks"
PAGES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.md"))}
SECTIONS = ["What it means", "See it by hand", "What to do", "Be sure it is over"]

MQADMIN = ROOT / "tests" / "golden" / "mqadmin.txt"
"""`release command: options`, of every subcommand of MQAdminStartup; `!` is one that must be given."""

OF_EVERY_COMMAND = {"n", "h"}
ONLY_5 = {"haStatus", "getSyncStateSet", "electMaster"}


def parts_of(text: str, level: int) -> list[str]:
    return re.findall(rf"(?m)^#{{{level}}} (.+)$", text)


def test_every_kind_has_a_page_and_every_page_a_kind() -> None:
    assert {*KIND_FACTS, *SELF_FACTS, *RELAY_KINDS} == set(CAUSES)
    assert PAGES.keys() == {*CAUSES, "README"}
    assert_none(kind for kind in CAUSES if parts_of(PAGES[kind], 1) != [kind])


def test_every_page_says_what_it_means_how_to_see_it_what_to_do_and_how_to_be_sure() -> None:
    assert_none(kind for kind in CAUSES if parts_of(PAGES[kind], 2) != SECTIONS)
    texts = {kind: re.split(r"(?m)^## .+$", PAGES[kind])[1:] for kind in CAUSES}
    assert_none(kind for kind, sections in texts.items() if any(len(section.split()) < 4 for section in sections))


def test_every_page_tells_apart_the_causes_of_its_kind_and_no_others() -> None:
    assert_none(
        f"{kind}: {sorted(set(causes) ^ set(parts_of(PAGES[kind], 3)))}"
        for kind, causes in CAUSES.items()
        if set(causes) != set(parts_of(PAGES[kind], 3))
    )


def test_the_causes_are_those_that_the_rules_give() -> None:
    of = cluster_findings
    given = {
        "double_consumed_queue": [*queues.DOUBLE_CONSUMPTION],
        "slave_read": [brokers.MASTER_DOWN, brokers.MASTER_BUSY],
        "order_at_risk": [brokers.MASTER_DOWN, brokers.BROKER_DOWN, brokers.QUEUES_LOST],
        "broker_isolated": [of_producers.FAILING_BROKER, of_producers.SLOW_BROKER],
        "broker_evicted": [of_producers.PERMANENT_EVICTION],
        "no_available_broker": [of_producers.ALL_BROKERS, of_producers.PRODUCER_HOST],
        "cluster_no_data": [of.NOT_ANSWERING, of.NO_CLOCK, of.EVENTS_DROPPED, *of.NO_DATA, mute_brokers.PULLS_MISSING],
        "broker_no_data": [of.NOT_ANSWERING, of.ANSWERS_SELDOM, of.CLIENTS_SILENT, mute_brokers.PULLS_MISSING],
        "broker_without_master": [of.NO_MASTER],
        "slow_collector": [of.SLOW_ROUNDS],
        "name_server_unreachable": [of.SOME_UNREACHABLE, of.ALL_UNREACHABLE],
        "cluster_name_conflict": [of.TWO_CLUSTERS],
        "clock_skew": [of.CLOCK_AHEAD, of.CLOCK_OUT_OF_STEP],
        "delivery_failed": [*own_alerts._TROUBLES],
    }
    assert {kind: set(CAUSES[kind]) for kind in given} == {kind: set(causes) for kind, causes in given.items()}
    assert {data_loss.DATA_LOSS, inspector.DATA_QUALITY} <= CAUSES.keys()


def test_an_address_leads_to_the_kind_and_to_its_cause() -> None:
    assert runbook_url("http://b/runbooks/", "slave_read") == "http://b/runbooks/slave_read"
    assert runbook_url("http://b/r", "slave_read", "master_down") == "http://b/r/slave_read#master_down"
    assert runbook_url("http://b/r", "group_offline", "group_offline") == "http://b/r/group_offline"
    assert runbook_url("http://b/{kind}.md", "slave_read", "master_down") == "http://b/slave_read.md#master_down"
    assert runbook_url("http://b/r", "no such kind") is None


def mqadmin_calls(text: str) -> Iterator[tuple[str, set[str], str]]:
    """Command, options and paragraph of each call of a page, in a console block or within a line; one that is only
    named has no options.
    """
    for paragraph in text.split("\n\n"):
        joined = re.sub(r"\n\s+(?=-)", " ", paragraph)
        for command, options in re.findall(r"mqadmin (\w+)((?: (?!#)[^`\n#]+)?)", joined):
            yield command, set(re.findall(r"(?<= )-(\w+)", options)), paragraph


def commands_of(release: str) -> dict[str, set[str]]:
    lines = [line.partition(": ") for line in MQADMIN.read_text().splitlines() if line.startswith(f"{release} ")]
    return {head.split()[1]: set(options.split()) for head, _, options in lines}


@pytest.mark.parametrize("release", ["4.9.8", "5.5.0"])
def test_every_call_of_mqadmin_that_a_page_shows_is_one_that_there_is(release: str) -> None:
    known = commands_of(release)
    assert len(known) > 50
    calls = [(kind, *call) for kind, text in PAGES.items() for call in mqadmin_calls(text)]
    assert len(calls) > 50
    offenders = []
    for kind, command, options, paragraph in calls:
        if command in ONLY_5 and release != "5.5.0":
            offenders += [] if "5.x" in paragraph else [f"{kind}: mqadmin {command} is of 5.x alone"]
            continue
        of_command = {option.rstrip("!") for option in known.get(command, set())}
        needed = {option.rstrip("!") for option in known.get(command, set()) if option.endswith("!")}
        if command not in known or options - of_command - OF_EVERY_COMMAND or (options and needed - options):
            offenders.append(f"{kind}: mqadmin {command} {sorted(options)}")
    assert_none(offenders)


@pytest.mark.parametrize("kind", sorted(CAUSES))
def test_every_page_shows_how_to_ask_rocketmq_itself(kind: str) -> None:
    calls = mqadmin_calls(PAGES[kind])
    assert any(options or command in {"clusterList", "consumerProgress"} for command, options, _ in calls)


@pytest.mark.real
@pytest.mark.xdist_group("rocketmq")
def test_the_list_of_mqadmins_commands_is_that_of_its_jar() -> None:
    """Of 5.5.0, whose jars are here; 4.9.8's was taken from its own in the same way."""
    jvm = RocketMQJvm(Settings.load().paths.jars)
    try:
        startup = jvm.java.java.lang.Class.forName("org.apache.rocketmq.tools.command.MQAdminStartup")
        jvm.java.org.apache.rocketmq.tools.command.MQAdminStartup.initCommand()
        field = startup.getDeclaredField("SUB_COMMANDS")
        field.setAccessible(True)
        found = {}
        for command in field.get(None):
            options = command.buildCommandlineOptions(jvm.java.org.apache.commons.cli.Options())
            found[command.commandName()] = {
                f"{one.getOpt() or 'null'}{'!' if one.isRequired() else ''}" for one in options.getOptions().toArray()
            }
    finally:
        jvm.close()
    assert found == commands_of("5.5.0")
