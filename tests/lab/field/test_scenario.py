"""Every scenario file can be played, and a fault in one is a sentence that names it."""

import pytest

from tests.lab.field.scenario import SHORT, Scenario, ScenarioError, load_scenario, scenario_names
from tests.lab.field.test_judge import PLAYED
from tests.lab.field.troubles import TroubleError, check_trouble
from tests.support.offenders import assert_none

FIELDS = {
    "about": "One consumer.",
    "seconds": 100,
    "topics": [{"topic": "orders"}],
    "clients": [{"name": "one", "kind": "push", "group": "g", "topics": ["orders"]}],
}


def test_every_scenario_can_be_read() -> None:
    assert_none(str(fault) for name in [*scenario_names(), SHORT] if (fault := fault_of(name)))


def fault_of(name: str) -> str | None:
    try:
        for trouble in load_scenario(name).troubles:
            check_trouble(trouble.do, trouble.arguments(""))
    except (ScenarioError, TroubleError) as error:
        return f"{name}: {error}"
    return None


def test_topics_and_groups_carry_the_suffix_of_their_play() -> None:
    scenario = load_scenario("frozen")
    spec = scenario.clients[1].in_play("_a")
    assert (spec.name, spec.group, spec.topics) == ("order-2", "order-service_a", ("orders_a",))
    trouble = load_scenario("topic_deleted").troubles[1]
    assert trouble.arguments("_a")["topic"] == "old-orders_a"


def test_a_seed_shifts_all_troubles_alike_and_always_by_as_much() -> None:
    scenario = load_scenario("frozen")
    assert scenario.shift(0) == 0
    assert scenario.shift(7) == scenario.shift(7) != scenario.shift(8)
    assert 0 <= scenario.shift(7) <= scenario.jitter


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"expects": [{"kind": "starved_queue"}]}, "needs cause"),
        ({"expects": [{"kind": "group_offline", "consumer_group": "h"}]}, "'h' is not one of g"),
        ({"clients": [*FIELDS["clients"], *FIELDS["clients"]]}, "two clients have one name"),  # type: ignore[misc]
        ({"troubles": [{"at": 99, "do": "stop", "to": "one"}]}, "after the end"),
        ({"is_quiet": True, "expects": [{"kind": "group_offline"}]}, "is_quiet, and yet"),
        ({"clients": [{"name": "one", "kind": "push", "group": "g", "topics": ["other"]}]}, "'other' is not one of"),
    ],
)
def test_a_fault_of_a_file_is_a_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Scenario.model_validate({**FIELDS, **changes})


@pytest.mark.parametrize(
    ("do", "arguments", "why"),
    [
        ("explode", {}, "trouble 'explode' is not one of blackhole, broker_freeze"),
        ("stop", {}, "trouble 'stop': missing a required argument: 'to'"),
        ("stop", {"to": "order-1", "seconds": 3}, "trouble 'stop': got an unexpected keyword argument 'seconds'"),
    ],
)
def test_an_unknown_verb_or_argument_is_named(do: str, arguments: dict[str, object], why: str) -> None:
    with pytest.raises(TroubleError, match=why):
        check_trouble(do, arguments)


def test_a_window_begins_when_its_trouble_was_really_begun() -> None:
    expected = PLAYED.scenario.expects[0]
    start_ms, end_ms = PLAYED.window_ms(expected)
    assert start_ms == PLAYED.done[0].start_ms
    assert end_ms == PLAYED.start_ms + 223_000
