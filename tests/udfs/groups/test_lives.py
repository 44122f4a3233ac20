"""Groups through time: tests/golden/groups.txt, case by case."""

from collections.abc import Callable, Mapping
from functools import partial

from tests.support.golden import Case, each_case, scalar
from tests.support.rules import default_rules, kind_rules
from tests.udfs.groups.facts import BOTH, CLIENTS, RULES, Flow, Life, at, fired_kinds, play, queues_of, two_clients
from udfs.brokers.broker_coverage import BrokerCoverage
from udfs.groups.queue_state import NOT_JUDGED
from udfs.groups.state import TopicState
from udfs.groups.verdict_reason import GONE

OFF = default_rules(kinds={**RULES.kinds, "group_offline": kind_rules(is_enabled=False)})
"""Groups that are offline on purpose."""


def played(life: Life, steps: str) -> Life:
    play(life, steps)
    return life


PAIR = "start h0:1 c0@7 broker-a:0 broker-b:0; start h1:1 c1@7 broker-a:1 broker-b:1; "
OTHERS = "start h2:1 c2@7 broker-a:2 broker-b:2; start h3:1 c3@7 broker-a:3 broker-b:3; "
POD = "named cache-7d9f8c6b5-x2k9z; "

LIVES: Mapping[str, Callable[[], Life]] = {
    "none": Life,
    "two": two_clients,
    "two_off": lambda: two_clients(Life(rules=OFF)),
    "orderly": partial(two_clients, consume_orderly=True),
    "machine_rooms": partial(two_clients, strategy="MACHINE_ROOM"),
    "one_queue": partial(Life, queues=1),
    "two_queues": partial(Life, queues=2),
    "one_puller": lambda: played(Life(queues=1, flow=Flow()), "start h1:1 A 0"),
    "unshared": lambda: Life(queues=2, flow=Flow(lag=0, is_read=True)),
    "two_brokers": partial(Life, brokers=BOTH),
    "of_two_queues": partial(Life, brokers=BOTH, queues=2),
    "pair": lambda: played(Life(brokers=BOTH, queues=2), PAIR + "to 120"),
    "four": lambda: played(Life(brokers=BOTH, queues=4), PAIR + OTHERS + "to 120"),
    "pod": lambda: played(Life(), POD + "start h1:1 A 0-7; to 1000"),
    "numbered": lambda: played(Life(), "named orders_1; start h1:1 A 0-7; to 1000"),
    "two_pods": lambda: played(Life(), POD + "start h1:1 A 0-3; start h2:1 B 4-7; to 1000"),
    "pod_on_two": lambda: played(
        Life(brokers=BOTH, queues=2), POD + "answer; start h1:1 A broker-a:0 broker-a:1 broker-b:0 broker-b:1; to 200"
    ),
    "asked": lambda: two_clients(Life(broker_coverage=BrokerCoverage(answered=frozenset({"broker-a"})))),
    "of_six_queues": partial(Life, brokers=BOTH, queues=6),
    "answering": partial(Life, brokers=BOTH, queues=2, broker_coverage=BrokerCoverage(answered=frozenset(BOTH))),
}


def queue_names(text: str) -> tuple[str, ...]:
    queues = () if text == "-" else queues_of(text.split())
    return tuple(queue if isinstance(queue, str) else f"broker-a:{queue}" for queue in queues)


def value_of(name: str, text: str) -> object:
    """The value of an incident's field, or of an entry of its evidence."""
    if name == "queues":
        return queue_names(text)
    if "=" in text:
        return {key: [client] for key, _, client in (word.rpartition("=") for word in text.split())}
    return CLIENTS.get(text) or scalar(text, at, name)


@each_case("groups")
def test_a_group(case: Case) -> None:
    life = LIVES[case.start]()
    case.assert_rows(play(life, case.steps))
    assert set(case.checks.pop("never", "").split()).isdisjoint(fired_kinds(life))
    topic_state = life.state.topics.get("orders", TopicState(0))
    reasons = {queue_state.reason for queue_state in topic_state.queues.values()}
    assert "reason" not in case.checks or reasons == {case.checks.pop("reason")}
    newest = life.outcomes[-1][1]
    if calm := case.checks.pop("calm", ""):
        assert newest.is_calm == (calm != "no")
        assert newest.due_ms == (at(float(calm)) if newest.is_calm else at(life.now) + 1)
    broker_name, *listed = case.checks.pop("listed", "").split(" ")
    view = life.state.membership.views.get(broker_name, {})
    assert sorted(member.client_id for member in view.values()) == listed
    words = case.checks.pop("verdicts", "").split()
    runs = [name for count, name in zip(words[::2], words[1::2], strict=False) for _ in range(int(count))]
    verdicts = life.verdicts() if words else []
    assert verdicts == (runs or words * len(verdicts))
    if gone := case.checks.pop("gone", ""):
        last = {row.queue: row for _, outcome in life.outcomes for row in outcome.ownership}
        found = {name: (row.verdict, row.planned_owner) for name, row in last.items() if row.reason == GONE}
        assert found == dict.fromkeys(queue_names(gone), (NOT_JUDGED, None))
    case.assert_incidents(life.state.incidents, value_of, completeness=newest.completeness)
