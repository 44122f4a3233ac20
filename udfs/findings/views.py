"""split_view: the brokers list different members of a group, or are about to."""

from udfs.alert import Finding
from udfs.explanation import SPLIT_VIEW
from udfs.findings import prose
from udfs.findings.starved import is_quiet
from udfs.model import queue_order
from udfs.ownership import SILENT, STARVED
from udfs.scene import Findings, Scene, split_condition


def find_split_view(scene: Scene) -> Findings:
    """Brokers whose lists of the group differ: `split_view`. Each client asks a random one at each rebalance.

    A client that heartbeats at one broker and has fallen silent at another is told at once: its queues there have
    nobody already, and that broker forgets it after 120 s. Twins listed more often at one broker are no split.
    """
    lacking = _lacking(scene)
    pairs = {(name, client_id) for found in (lacking, scene.cut_off) for name in found for client_id in found[name]}
    since = _since(scene, pairs)
    if not since:
        return {}
    sure = {pair for pair in pairs if _is_sure(scene, *pair, since[pair])}
    missing: dict[str, list[str]] = {}
    for broker_name, client_id in sorted(sure or pairs):
        missing.setdefault(broker_name, []).append(client_id)
    since_ms = min(since[pair] for pair in sure or pairs)
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
            is_ready=bool(sure),
        )
    }


def _since(scene: Scene, pairs: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """(broker, ClientId) → since when it is missing there: in a roll-out another one is, look by look."""
    since = {pair: scene.since(split_condition(*pair), holds=True) or scene.now_ms for pair in sorted(pairs)}
    held = {split_condition(*pair) for pair in pairs}
    for condition in [name for name in scene.state.conditions if name.startswith(f"{SPLIT_VIEW}|")]:
        scene.since(condition, condition in held)
    return since


def _is_sure(scene: Scene, broker_name: str, client_id: str, since_ms: int) -> bool:
    return client_id in scene.cut_off.get(broker_name, ()) or scene.is_settled(since_ms)


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
    views = scene.state.membership.views
    masters = {topic: route.broker_names() - set(route.without_master) for topic, route in scene.routes.items()}
    brokers = set().union(*masters.values())
    listed = {name: {member.client_id for member in views.get(name, {}).values()} for name in brokers}
    if len({frozenset(client_ids) for client_ids in listed.values()}) < 2:
        return {}
    topics = {member.client_id: member.topics for _, member in scene.judged_members()}
    expected: dict[str, set[str]] = {}
    for client_id in topics.keys() - scene.late:
        for topic in topics[client_id]:
            for broker_name in masters.get(topic, ()):
                expected.setdefault(broker_name, set()).add(client_id)
    lacking = {}
    for broker_name, client_ids in sorted(expected.items()):
        is_reached = broker_name in views and broker_name not in scene.hearing.silent
        is_heard = is_reached or broker_name in scene.hearing.answered
        unlisted = client_ids - listed[broker_name]
        if broker_name in scene.hearing.unheard or not is_heard:
            continue
        if unlisted:
            lacking[broker_name] = sorted(unlisted)
    return lacking
