"""split_view: the brokers list different members of a group, or are about to."""

from udfs.alert import Finding
from udfs.explanation import SPLIT_VIEW
from udfs.findings import prose
from udfs.findings.starved import is_quiet
from udfs.ownership import SILENT, STARVED
from udfs.plan import queue_order
from udfs.scene import Findings, Scene


def find_split_view(scene: Scene) -> Findings:
    """Brokers whose lists of the group differ: `split_view`. Each client asks a random one at each rebalance.

    A client that heartbeats at one broker and has fallen silent at another is told at once: its queues there have
    nobody already, and that broker forgets it after 120 s. Twins listed more often at one broker are no split.
    """
    lacking = _lacking(scene)
    missing = {
        name: sorted({*lacking.get(name, ()), *scene.cut_off.get(name, ())})
        for name in sorted(lacking.keys() | scene.cut_off.keys())
    }
    since_ms = scene.since(SPLIT_VIEW, bool(missing))
    if since_ms is None:
        return {}
    starving = _starving(scene)
    views = {
        name: sorted(member.client_id for member in view.values())
        for name, view in sorted(scene.state.membership.views.items())
    }
    return {
        SPLIT_VIEW: Finding(
            kind=SPLIT_VIEW,
            cause=SPLIT_VIEW,
            severity="critical" if starving else "warning",
            since_ms=since_ms,
            text=prose.tell_split_view(scene.labels, missing, starving, since_ms),
            labels=scene.labels,
            broker_name=",".join(missing),
            queues=starving,
            evidence={"views": views, "missing": missing},
            is_ready=bool(scene.cut_off) or scene.is_settled(since_ms),
        )
    }


def _starving(scene: Scene) -> tuple[str, ...]:
    """Queues that nobody pulls while their owner works from another list, or cannot reach their broker."""
    names = set()
    for topic, watched in scene.shared_topics():
        if not is_quiet(watched):
            continue
        evidence = scene.evidence(topic, watched)
        for name, watch in watched.queues.items():
            owner, cut_off = watch.share.owner or "", evidence.cut_off.get(queue_order(name)[0], ())
            if watch.verdict in (STARVED, SILENT) and (owner in cut_off or evidence.explained.get(owner) == SPLIT_VIEW):
                names.add(name)
    return tuple(sorted(names, key=queue_order))


def _lacking(scene: Scene) -> dict[str, list[str]]:
    """Broker → ClientIds that it should list and does not: those alive that subscribe a topic it serves."""
    brokers_of = {topic: route.broker_names() for topic, route in scene.routes.items()}
    expected: dict[str, set[str]] = {}
    for _, member in scene.judged_members():
        for topic in member.topics if member.client_id not in scene.late else ():
            for broker_name in brokers_of.get(topic, ()):
                expected.setdefault(broker_name, set()).add(member.client_id)
    lacking = {}
    for broker_name, client_ids in sorted(expected.items()):
        view = scene.state.membership.views.get(broker_name)
        if broker_name in scene.hearing.unheard or (view is None and broker_name not in scene.hearing.answered):
            continue
        unlisted = client_ids - {member.client_id for member in (view or {}).values()}
        if unlisted:
            lacking[broker_name] = sorted(unlisted)
    return lacking
