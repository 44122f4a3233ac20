"""One cluster at one tick of the clock: which brokers are not heard, have no master, and what that explains.

Every shard knows the same of a cluster and concludes the same; one of them writes it down. So a broker's own alert and
what it suppresses in ten thousand groups are decided in one batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from udfs import cluster_prose
from udfs.alert import Finding, Incident, Transition
from udfs.flapping import Window
from udfs.life import Look, Reason, end, step
from udfs.rules import Rules
from udfs.voices import Voices

UNHEARD_CLUSTER, UNHEARD_BROKER, MASTERLESS_BROKER = "unheard_cluster", "unheard_broker", "masterless_broker"

NOT_ANSWERING, CLIENTS_SILENT = "not_answering", "clients_silent"
COLLECTOR_SILENT, NOTHING_ARRIVES = "collector_silent", "nothing_arrives"
NO_MASTER = "no_master"

MASTERLESS_MS = 30_000
"""Until every client has polled the route: a master that restarts is back sooner."""

REMEMBERED_MS = 600_000
"""An unheard broker that no route names and nobody asks counts as removed on purpose after so long."""


@dataclass
class ClusterWatch:
    """What is kept of a cluster between ticks, beside its groups.

    unheard_ms     broker → since when it was asked and did not answer
    masterless_ms  broker → since when routes name only slaves of it
    topics         broker → how many topics' routes name it
    gone_ms        broker → since when no route names an unheard broker, and nobody asks it
    """

    unheard_ms: dict[str, int] = field(default_factory=dict)
    masterless_ms: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    gone_ms: dict[str, int] = field(default_factory=dict)
    voices: Voices = field(default_factory=Voices)
    incidents: dict[str, Incident] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    below_ms: int | None = None

    def learn_route(self, before: set[str], brokers: set[str], masterless: set[str], at_ms: int) -> None:
        """A topic's route names `brokers`, of which `masterless` have slaves only; it named `before`."""
        for broker_name in before - brokers:
            self.topics[broker_name] = self.topics.get(broker_name, 1) - 1
            if self.topics[broker_name] <= 0:
                del self.topics[broker_name]
                self.masterless_ms.pop(broker_name, None)
        for broker_name in brokers - before:
            self.topics[broker_name] = self.topics.get(broker_name, 0) + 1
        for broker_name in masterless:
            self.masterless_ms.setdefault(broker_name, at_ms)
        for broker_name in brokers - masterless:
            self.masterless_ms.pop(broker_name, None)


@dataclass(frozen=True)
class Tick:
    """One clock event. `is_own` says that `run` sent it, which asks no broker itself."""

    now_ms: int
    asked: frozenset[str]
    answered: frozenset[str]
    is_own: bool


@dataclass(frozen=True)
class Overview:
    """What a tick says of the whole cluster.

    unheard     brokers whose clients and queues are not known now
    silent      brokers that no client reaches, though they may answer
    explained   broker → the open incident that explains what is wrong under it
    cluster_id  the open incident that explains everything, while nothing of the cluster is heard
    """

    unheard: frozenset[str]
    silent: frozenset[str]
    explained: dict[str, str]
    cluster_id: str | None
    transitions: list[Transition]


def look_over(watch: ClusterWatch, cluster: str, tick: Tick, rules: Rules) -> Overview:
    """Judge the cluster as of this tick."""
    now_ms = tick.now_ms
    watch.voices.forget(now_ms)
    late_ms = now_ms - rules.heartbeat_late_ms
    not_answering = tick.asked - tick.answered
    nothing_ms = watch.voices.all_silent(late_ms) if tick.is_own and tick.answered else None
    unheard = tick.asked if nothing_ms is not None else not_answering
    silent = {name: at_ms for name, at_ms in watch.voices.silent(late_ms).items() if watch.topics.get(name)}
    _note_unheard(watch, tick, unheard)
    share = len(tick.asked - unheard) / len(tick.asked) if tick.asked else 1.0
    is_one = len(unheard) == 1 < len(tick.asked)
    if share >= rules.completeness_min or is_one:
        watch.below_ms = None
    elif watch.below_ms is None:
        watch.below_ms = now_ms if nothing_ms is None else nothing_ms
    findings: dict[str, dict[str, Finding]] = {
        UNHEARD_CLUSTER: dict(_find_unheard_cluster(watch, cluster, tick, unheard, nothing_ms, rules)),
        UNHEARD_BROKER: {},
        MASTERLESS_BROKER: {},
    }
    transitions = list(_step(watch, UNHEARD_CLUSTER, findings[UNHEARD_CLUSTER], now_ms, share, rules))
    transitions += _give_up(watch, now_ms)
    cluster_id = _id_of(watch, UNHEARD_CLUSTER)
    findings[UNHEARD_BROKER] = dict(_find_unheard_brokers(watch, cluster, silent, cluster_id, now_ms, rules))
    transitions += _step(watch, UNHEARD_BROKER, findings[UNHEARD_BROKER], now_ms, share, rules)
    findings[MASTERLESS_BROKER] = dict(_find_masterless(watch, cluster, now_ms))
    transitions += _step(watch, MASTERLESS_BROKER, findings[MASTERLESS_BROKER], now_ms, share, rules)
    is_dark = bool(tick.asked) and unheard == tick.asked
    return Overview(
        frozenset(unheard), frozenset(silent), _explained(watch), cluster_id if is_dark else None, transitions
    )


def _note_unheard(watch: ClusterWatch, tick: Tick, unheard: frozenset[str]) -> None:
    for broker_name in unheard:
        watch.unheard_ms.setdefault(broker_name, tick.now_ms)
    for broker_name in tick.answered - unheard:
        watch.unheard_ms.pop(broker_name, None)
    for broker_name in list(watch.unheard_ms):
        if broker_name in tick.asked or watch.topics.get(broker_name):
            watch.gone_ms.pop(broker_name, None)
        else:
            watch.gone_ms.setdefault(broker_name, tick.now_ms)


def _find_unheard_cluster(
    watch: ClusterWatch, cluster: str, tick: Tick, unheard: frozenset[str], nothing_ms: int | None, rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Rule 1. A cluster is unheard when less than completeness_min of its brokers is heard for unheard_ms.

    Not unheard: a cluster that lacks one broker of several, which is rule 2.
    """
    since_ms, now_ms = watch.below_ms, tick.now_ms
    if since_ms is None or now_ms < since_ms + rules.unheard_ms:
        return
    cause = NOT_ANSWERING
    if tick.is_own:
        cause = NOTHING_ARRIVES if nothing_ms is not None else COLLECTOR_SILENT
    yield (
        UNHEARD_CLUSTER,
        Finding(
            kind=UNHEARD_CLUSTER,
            cause=cause,
            severity="error",
            since_ms=since_ms,
            text=cluster_prose.tell_unheard_cluster(cluster, cause, sorted(unheard), len(tick.asked), since_ms),
            labels={"cluster": cluster},
            evidence={"asked": sorted(tick.asked), "unheard": sorted(unheard)},
            is_missing=True,
            is_ready=now_ms >= since_ms + rules.unheard_page_ms,
        ),
    )


def _find_unheard_brokers(
    watch: ClusterWatch, cluster: str, silent: dict[str, int], cluster_id: str | None, now_ms: int, rules: Rules
) -> Iterator[tuple[str, Finding]]:
    """Rule 2. A broker is unheard when it does not answer, or no client reaches it while its clients speak elsewhere.

    Not unheard: a broker whose only client has stopped; one that nobody asks and no route names, after a while.
    """
    for broker_name in sorted(watch.unheard_ms.keys() | silent.keys()):
        since_ms = min(at for at in (watch.unheard_ms.get(broker_name), silent.get(broker_name)) if at is not None)
        if now_ms < since_ms + rules.unheard_ms:
            continue
        cause = NOT_ANSWERING if broker_name in watch.unheard_ms else CLIENTS_SILENT
        topics = watch.topics.get(broker_name, 0)
        yield (
            f"{UNHEARD_BROKER} {broker_name}",
            Finding(
                kind=UNHEARD_BROKER,
                cause=cause,
                severity="critical",
                since_ms=since_ms,
                text=cluster_prose.tell_unheard_broker(cluster, broker_name, cause, topics, since_ms),
                labels={"cluster": cluster, "broker_name": broker_name},
                broker_name=broker_name,
                evidence={"topics": topics},
                suppressed_by=cluster_id,
                is_missing=True,
                is_ready=now_ms >= since_ms + rules.unheard_page_ms,
            ),
        )


def _find_masterless(watch: ClusterWatch, cluster: str, now_ms: int) -> Iterator[tuple[str, Finding]]:
    """Rule 3. A broker is masterless when routes name only slaves of it. Not: a master that restarts."""
    for broker_name, since_ms in sorted(watch.masterless_ms.items()):
        yield (
            f"{MASTERLESS_BROKER} {broker_name}",
            Finding(
                kind=MASTERLESS_BROKER,
                cause=NO_MASTER,
                severity="error",
                since_ms=since_ms,
                text=cluster_prose.tell_masterless(cluster, broker_name, watch.topics.get(broker_name, 0), since_ms),
                labels={"cluster": cluster, "broker_name": broker_name},
                broker_name=broker_name,
                evidence={"topics": watch.topics.get(broker_name, 0)},
                suppressed_by=_id_of(watch, f"{UNHEARD_BROKER} {broker_name}"),
                is_ready=now_ms >= since_ms + MASTERLESS_MS,
            ),
        )


def _give_up(watch: ClusterWatch, now_ms: int) -> Iterator[Transition]:
    """Unheard brokers that left routes and questions long ago."""
    for broker_name, since_ms in list(watch.gone_ms.items()):
        if now_ms >= since_ms + REMEMBERED_MS:
            del watch.gone_ms[broker_name]
            watch.unheard_ms.pop(broker_name, None)
            incident = watch.incidents.pop(f"{UNHEARD_BROKER} {broker_name}", None)
            if incident is not None:
                yield end(incident, Reason.GIVEN_UP, Look(now_ms))


def _step(
    watch: ClusterWatch, kind: str, findings: dict[str, Finding], now_ms: int, share: float, rules: Rules
) -> Iterator[Transition]:
    """These tell of what is missing: they end when it is heard again, however little else is."""
    return step(watch.incidents, watch.windows, kind, findings, lambda _: Look(now_ms, round(share, 4)), rules)


def _id_of(watch: ClusterWatch, key: str) -> str | None:
    incident = watch.incidents.get(key)
    return incident.incident_id if incident else None


def _explained(watch: ClusterWatch) -> dict[str, str]:
    kinds = (MASTERLESS_BROKER, UNHEARD_BROKER)  # a broker that is not heard at all is the stronger reason
    open_ones = [one for kind in kinds for one in watch.incidents.values() if one.kind == kind and one.broker_name]
    return {incident.broker_name: incident.incident_id for incident in open_ones if incident.broker_name}
