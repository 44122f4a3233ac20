"""What an alert that no rule decides would do: of our own health, of the events' quality, of what Kafka has lost.

tests/history/test_check_own.py holds the kinds and the spans told here against the code that writes these alerts.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from streaming.history.check import Subject, World, about, tell_receivers, tell_silences
from streaming.history.moments import tell_span
from streaming.oncall.own_alerts import CANARY_LOST, DELIVERY_FAILED, OWN_CLUSTER
from udfs.page_limit import MORE_ALERTS, SEVERITIES
from udfs.routing import WATCHDOG, pick_watchdog_receivers

_KEY = re.compile(r"\{([a-z_.]+)\}")


@dataclass(frozen=True)
class OwnFacts:
    """Sentences; `{section.key}` in them stands for a setting that decides, and is told with its value.

    cause          the one it has, where it is always the same
    never          a key and the value with which it never fires, and the sentence that says so
    reaches        whom it reaches, where that is not for the routes alone to say
    is_of_cluster  it carries the cluster that it is about; the others carry our own name
    is_of_topic    it carries the topic that it is about
    """

    means: str
    fires: str
    ends: str
    severities: tuple[str, ...]
    cause: str | None = None
    never: tuple[str, Any, str] | None = None
    reaches: str | None = None
    is_of_cluster: bool = False
    is_of_topic: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """That decide, in the order they are told."""
        of_never = (self.never[0],) if self.never else ()
        return tuple(dict.fromkeys([*of_never, *_KEY.findall(f"{self.fires} {self.ends}")]))


DATA_QUALITY, DATA_LOSS = "data_quality", "data_loss"

OWN_FACTS: Mapping[str, OwnFacts] = {
    DATA_QUALITY: OwnFacts(
        "The events of a Kafka topic are not what they should be, and verdicts that rest on them may be wrong. One "
        "alert a topic, whatever fails.",
        "At once, when at {quality.alert_validations} looks in a row more than {quality.alert_share} of a sample's "
        "events broke a critical expectation, or more than that share of the messages read since the look before was "
        "quarantined. A query's topics are looked at every {quality.every_batches} of its batches, and "
        "{quality.pause_seconds} apart at least.",
        "RESOLVED when at {quality.alert_validations} looks in a row neither was above half of {quality.alert_share}, "
        "or when the topic has had no message for 1 h.",
        ("error",),
        cause=DATA_QUALITY,
        never=("quality.every_batches", 0, "no events are validated, and `run` ends what it finds open"),
        is_of_topic=True,
    ),
    DATA_LOSS: OwnFacts(
        "A streaming query has gone on without messages that Kafka no longer has: alerts of the gap may be missing or "
        "late. One alert a query.",
        "At once, when a query is started and Kafka lacks what it wants next, as {queries.fail_on_data_loss} lets it "
        "go on.",
        "RESOLVED once the query has gone on for 1 h without a further loss, in this `run` or a later one.",
        ("error",),
        cause=DATA_LOSS,
        never=("queries.fail_on_data_loss", True, "a query that has lost messages does not start, and says so instead"),
    ),
    DELIVERY_FAILED: OwnFacts(
        "A receiver does not take what it is sent: alerts for it wait, or are given up. One alert a receiver.",
        "At once, when the receiver refuses our key, is not at its address, or refuses 3 alerts one after the other; "
        "when it has failed in any other way for {oncall.unreachable_seconds}. With a refused key it is tried again "
        "every {oncall.bad_key_seconds}.",
        "RESOLVED when none of that is so any more; after a restart, once the receiver has taken something.",
        ("critical",),
        reaches="every receiver but the one that fails, whatever the routes say",
    ),
    MORE_ALERTS: OwnFacts(
        "More alerts of one kind fire in a cluster than are told one by one; this one stands for the rest, and says "
        "how many wait.",
        "At once, when more than {oncall.limit} of one kind and cluster are to be told: those beyond wait.",
        "RESOLVED when none has had to wait for 1 min.",
        SEVERITIES,
        cause="limit",
        reaches="whoever those that wait would reach, by their own routes; as severe as the worst of them",
        is_of_cluster=True,
    ),
    CANARY_LOST: OwnFacts(
        "The modelled twins that `run` injects do not arrive where alerts are told: alerts of real trouble may be "
        "late, or lost on the way.",
        "At once, when none has arrived for twice {canary.interval_seconds} and 1 min.",
        "RESOLVED when one arrives.",
        ("critical",),
        cause=CANARY_LOST,
        never=("canary.interval_seconds", 0, "none is injected, so none is missed"),
    ),
    WATCHDOG: OwnFacts(
        "All is well: it is there to be missed. Let a dead-man's switch page when it stops coming. It is in no table.",
        "Always, every {oncall.resend_seconds}, while the newest micro-batch is not older than "
        "{oncall.watchdog_seconds}; that of `balancewatch relay` while the relay works.",
        "Never RESOLVED: it falls silent.",
        ("info",),
        cause=WATCHDOG,
        reaches="only receivers of routes that name its kind; no silence keeps it",
    ),
}


def check_own(subject: Subject, world: World, incident: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """JSON of the answer, as streaming.history.check has it."""
    facts = OWN_FACTS[subject.kind]
    severities = [subject.severity] if subject.severity else list(facts.severities)
    labels = incident["labels"] if incident else {}
    kept_by = [] if subject.kind == WATCHDOG else tell_silences(subject, severities, world)
    told = about(subject, incident)
    return {
        **told,
        "subject": {**labels, **told["subject"]},
        "means": facts.means if facts.is_of_cluster else f"{facts.means} It carries the cluster {OWN_CLUSTER}.",
        "fires": _tell_firing(facts, world),
        "ends": _with_values(facts.ends, world),
        "severities": severities,
        "reaches": facts.reaches,
        "receivers": list(_receivers(subject, severities, labels, world)),
        "silences": kept_by,
        "explained_by": {"kinds": [], "is": None, "summary": None, "may_be": []},
        "keys": [{"key": key, "value": _value(key, world), "set_by": world.origins.of(key)} for key in facts.keys],
    }


def _tell_firing(facts: OwnFacts, world: World) -> str:
    if facts.never is not None:
        key, value, why = facts.never
        if _value(key, world) == value:
            return f"Never: {_with_values(f'{{{key}}}', world)}: {why}."
    return _with_values(facts.fires, world)


def _receivers(
    subject: Subject, severities: Iterable[str], labels: Mapping[str, str], world: World
) -> Iterable[dict[str, Any]]:
    if subject.kind == WATCHDOG:
        picked = pick_watchdog_receivers(world.routes)
    elif subject.kind == DELIVERY_FAILED:
        picked = dict.fromkeys((name for name in world.receivers if name != labels.get("receiver")), DELIVERY_FAILED)
    else:
        return [] if subject.kind == MORE_ALERTS else tell_receivers(subject, severities, world)
    return [
        {"severity": severity, "receiver": receiver, "route": route}
        for severity in severities
        for receiver, route in picked.items()
    ]


def _value(key: str, world: World) -> Any:
    return reduce(getattr, key.split("."), world.settings)


def _with_values(text: str, world: World) -> str:
    """Each `{section.key}` as section.key (its value)."""
    return _KEY.sub(lambda found: f"{found[1]} ({_tell(found[1], _value(found[1], world))})", text)


def _tell(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return tell_span(round(value * 1000)) if key.endswith("_seconds") else f"{value:g}"
