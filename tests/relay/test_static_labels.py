"""Static labels on what the relay sends: routed by, kept while an incident is open, and recorded as they were sent."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from streaming.relay.notice import NO_LINKS, Notice
from streaming.relay.receivers.alertmanager import alert_of
from streaming.relay.receivers.chat import dingtalk_message, feishu_message
from streaming.relay.receivers.pagerduty import event
from streaming.relay.receivers.posting import Traits
from streaming.relay.receivers.webhook import message
from tests.relay.notices import NOW_MS, notice
from tests.relay.stage import Scripted, Stage, silence
from udfs.alerts.routing import Route

PAYMENTS = {"match": {"consumer_group": "payments*"}, "set": {"team": "payments", "tier": "1"}}
ROUTES = [Route("payments", ("chat",), {"team": ("payments",)}), Route("rest", ("am",))]


def stage_of(*labels: Mapping[str, Any]) -> Stage:
    """A chat for the team payments, an Alertmanager for the rest."""
    return Stage({"chat": Scripted(), "am": Scripted(Traits(is_leased=True))}, routes=ROUTES, labels=labels)


def labelled(receiver: Scripted, *, is_renewal: bool = False) -> list[tuple[str, dict[str, str]]]:
    """Each notice that the receiver got, by name and status, with its static labels."""
    return [
        (f"{one.alert_id} {one.status}", dict(one.static_labels))
        for _, send, _ in receiver.calls
        if send.is_renewal is is_renewal
        for one in send.notices
        if one.kind != "watchdog"
    ]


def test_a_route_a_silence_and_a_delivery_have_them() -> None:
    stage = stage_of(PAYMENTS)
    stage.silence(silence(-10, 60, tier="2", team="pay*"))
    stage.put("a", run=1, consumer_group="payments-eu")
    stage.put("b", run=1, consumer_group="billing")
    assert labelled(stage.receivers["chat"]) == [("a firing", PAYMENTS["set"])]
    assert labelled(stage.receivers["am"]) == [("b firing", {})]
    recorded = {(row["incident_id"][0], row["static_labels"]) for row in stage.log}
    assert recorded == {("a", json.dumps(PAYMENTS["set"])), ("b", None)}
    stage.silence(silence(-10, 60, "s2", team="pay*"))
    stage.put("c", run=1, consumer_group="payments-us")
    assert [row["reason"] for row in stage.outcomes("SILENCED")] == ["s2"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_other_labels_in_the_settings_resend_nothing_and_an_open_incident_keeps_its_own(*, is_restarted: bool) -> None:
    """At an Alertmanager another label would be another alert: a second page."""
    stage = stage_of({"set": {"tier": "3"}})
    stage.put("a", run=5)
    sent = len(stage.log)
    stage.labels = [{"set": {"tier": "1", "team": "payments"}}]
    (stage.restart if is_restarted else stage.reload)()
    stage.run(130)
    am = stage.receivers["am"]
    assert labelled(am) == [("a firing", {"tier": "3"})]
    assert dict(labelled(am, is_renewal=True)) == {"a firing": {"tier": "3"}}
    assert len(stage.log) == sent
    stage.put("a", "RESOLVED", run=5)
    assert labelled(am)[-1] == ("a resolved", {"tier": "3"})
    stage.put("b", run=5)
    assert labelled(stage.receivers["chat"]) == [("b firing", {"tier": "1", "team": "payments"})]


def test_every_receiver_shows_them_and_no_key_depends_on_them() -> None:
    plain, found = notice(), notice(static_labels={"team": "payments", "tier": "1"})
    assert plain.key == found.key
    assert alert_of(found, NOW_MS, "", NO_LINKS)["labels"].items() >= found.static_labels.items()
    assert message(found, "hook")["commonLabels"]["team"] == "payments"
    paged, before = (json.loads(event(one, "k")) for one in (found, plain))
    assert paged["payload"]["custom_details"]["labels"]["tier"] == "1"
    assert paged["dedup_key"] == before["dedup_key"]
    for of_chat in (dingtalk_message, feishu_message):
        assert "team=payments tier=1" in json.dumps(of_chat([found], NOW_MS))


def test_the_watchdog_has_them() -> None:
    stage = Stage(
        {"am": Scripted(Traits(is_leased=True))},
        routes=[Route("watchdog", ("am",), {"kind": ("watchdog",)}), Route("rest", ("am",))],
        labels=[{"match": {"cluster": "balancewatch"}, "set": {"team": "platform"}}],
    )
    stage.run(5)
    sent: list[Notice] = [one for _, send, _ in stage.receivers["am"].calls for one in send.notices]
    assert [(one.kind, dict(one.static_labels)) for one in sent] == [("watchdog", {"team": "platform"})]
