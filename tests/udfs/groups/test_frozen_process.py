"""Starved queues with one cause: what pages, what waits, and what the page says."""

from dataclasses import replace

import pytest

from tests.udfs.groups.facts import at
from udfs.alerts.alert import Finding, Incident, Text, opened
from udfs.groups.findings.queues import STALLED_QUEUE, STARVED_QUEUE
from udfs.groups.group import PROCESSES, UNSERVED, as_one_cause, frozen_of
from udfs.groups.state import GroupState
from udfs.rocketmq.membership import Member, Membership

UNSERVED_A = frozenset({"broker-a"})


def finding_of(
    group: str, cause: str, topic: str = "orders", broker: str = "broker-a", kind: str = STARVED_QUEUE, client: str = ""
) -> Finding:
    queues = (f"{broker}:0", f"{broker}:1")
    blame = {"cause": cause, "client_id": client or f"{group}@1"}
    return Finding(
        kind,
        cause,
        "critical",
        at(0),
        Text(f"{group} starves.", "Restart it."),
        {"consumer_group": group, "topic": topic},
        topic=topic,
        queues=queues,
        evidence={"queues": dict.fromkeys(queues, blame)},
    )


def incident_of(finding: Finding, *, has_fired: bool = True) -> Incident:
    incident = opened(finding, "FIRING" if has_fired else "PENDING", at(100))
    return replace(incident, fired_at_ms=at(120) if has_fired else None, held_ms=20_000)


def group_of(name: str, *incidents: Incident, client: str = "") -> GroupState:
    state = GroupState("c", name, at(0), Membership())
    client_id, addr = client or f"{name}@1", "10.0.0.1:1"
    state.membership.views["broker-a"] = {
        addr: Member(client_id, addr, "JAVA", "4.9.8", ["orders"], "AVG", True, at(0), at(0))
    }
    state.incidents = {f"{one.kind} {one.topic}": one for one in incidents}
    return state


def shared(finding: Finding, state: GroupState, *others: GroupState, unserved: frozenset[str] = UNSERVED_A) -> Finding:
    key = f"{finding.kind} {finding.topic}"
    frozen = {other.consumer_group: frozen_of(other) for other in others}
    return as_one_cause({key: finding}, state, frozen, unserved)[key]


def page_of(group: str, cause: str, kind: str = STARVED_QUEUE) -> GroupState:
    """A group whose incident has paged for broker-a."""
    finding = shared(finding_of(group, cause, kind=kind), group_of(group))
    return group_of(group, incident_of(finding))


def test_the_first_page_of_a_broker_that_serves_no_pull_names_the_broker() -> None:
    found = shared(finding_of("g1", "pull_stopped"), group_of("g1"))
    assert found.inhibited_by is None
    assert found.evidence[UNSERVED] == ["broker-a"]
    assert "Broker broker-a serves no pull of any group" in str(found.text.summary)
    assert str(found.text.advice).startswith("First check the pull threads of broker broker-a.")


def test_the_other_groups_of_that_broker_wait_under_it_and_are_listed() -> None:
    first = page_of("g1", "pull_stopped")
    (page,) = first.incidents.values()
    later = shared(finding_of("g2", "consume_stopped"), group_of("g2"), first)
    assert later.inhibited_by == page.incident_id
    second = group_of("g2", incident_of(later))
    again = shared(finding_of("g1", "pull_stopped"), first, second)
    assert again.inhibited_by is None
    assert "affected, too: broker-a:0-1 of topic orders in group g2." in str(again.text.summary)


@pytest.mark.parametrize(
    ("kind", "own_kind", "broker", "unserved", "waits"),
    [
        (STARVED_QUEUE, STARVED_QUEUE, "broker-a", UNSERVED_A, True),
        (STALLED_QUEUE, STALLED_QUEUE, "broker-a", UNSERVED_A, True),
        (STALLED_QUEUE, STARVED_QUEUE, "broker-a", UNSERVED_A, False),
        (STARVED_QUEUE, STARVED_QUEUE, "broker-a", frozenset(), False),  # it serves pulls again
        (STARVED_QUEUE, STARVED_QUEUE, "broker-b", UNSERVED_A, False),
    ],
)
def test_a_group_waits_under_a_page_of_its_kind_for_the_same_unserved_broker(
    kind: str, own_kind: str, broker: str, unserved: frozenset[str], waits: bool
) -> None:
    own = finding_of("g2", "pull_stopped", broker=broker, kind=own_kind)
    found = shared(own, group_of("g2"), page_of("g1", "pull_stopped", kind), unserved=unserved)
    assert (found.inhibited_by is not None) == waits
    assert (UNSERVED in found.evidence) == (broker in unserved)


def test_an_incident_that_has_paged_is_not_put_under_another_one() -> None:
    own = finding_of("g2", "pull_stopped")
    found = shared(own, group_of("g2", incident_of(own)), page_of("g1", "pull_stopped"))
    assert found.inhibited_by is None


def test_two_topics_of_one_group_that_a_frozen_process_starves_are_one_page() -> None:
    first, second = (finding_of("g1", "frozen_client", topic) for topic in ("bills", "orders"))
    state = group_of("g1", *(incident_of(one, has_fired=False) for one in (first, second)))
    keys = [f"{STARVED_QUEUE} bills", f"{STARVED_QUEUE} orders"]
    found = as_one_cause(dict(zip(keys, (first, second), strict=True)), state, {})
    assert found[keys[0]].inhibited_by is None
    assert found[keys[1]].inhibited_by == state.incidents[keys[0]].incident_id


def test_queues_that_pass_from_a_frozen_process_to_one_that_does_not_pull_them_stay_one_page() -> None:
    def after(group: str, cause: str, client: str, state: GroupState, *others: GroupState) -> Finding:
        return shared(finding_of(group, cause, client=client), state, *others, unserved=frozenset())

    groups = {name: group_of(name, client="P1@1") for name in ("g1", "g2")}
    found = after("g1", "frozen_client", "P1@1", groups["g1"])
    first = group_of("g1", incident_of(found), client="P2@1")
    second = group_of("g2", incident_of(after("g2", "frozen_client", "P1@1", groups["g2"], first)), client="P2@1")
    moved = after("g1", "pull_stopped", "P2@1", first, second)
    first = group_of("g1", incident_of(moved), client="P2@1")
    (page,) = first.incidents.values()
    assert moved.inhibited_by is None
    later = after("g1", "pull_stopped", "P2@1", first, group_of("g2", incident_of(moved)))
    assert "without pulls" in str(later.text.summary)
    waiting = after("g2", "pull_stopped", "P2@1", second, first)
    assert waiting.evidence[PROCESSES] == moved.evidence[PROCESSES] != []
    assert waiting.inhibited_by == page.incident_id


def test_pulls_that_stop_in_one_process_are_a_page_a_group() -> None:
    """A consumer that is suspended stops in its own group only, so these incidents share no cause."""
    found = shared(finding_of("g1", "pull_stopped"), group_of("g1"), unserved=frozenset())
    assert PROCESSES not in found.evidence
