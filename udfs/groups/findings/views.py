"""split_view: the brokers list different members of a group, or are about to."""

from udfs.alerts.alert import Finding
from udfs.groups.findings import prose
from udfs.groups.findings.starved import is_quiet
from udfs.groups.inference import SPLIT_VIEW
from udfs.groups.queue_state import NOT_CONSUMED, UNOWNED
from udfs.groups.snapshot import Findings, GroupSnapshot, split_condition
from udfs.rocketmq.model import queue_order


def find_split_view(snapshot: GroupSnapshot) -> Findings:
    """Kind 3. A group's view is split when brokers list different members for settle_ms: `split_view`. Each client asks
    a random broker at each rebalance. A client that heartbeats at one broker and has fallen silent at another splits
    the view at once: the client's queues at the other have nobody already, and that broker forgets the client after 120
    s. Not split: twins that one broker lists more often than another.
    """
    lacking = _lacking(snapshot)
    pairs = {(name, client_id) for found in (lacking, snapshot.cut_off) for name in found for client_id in found[name]}
    since = _since(snapshot, pairs)
    if not since:
        return {}
    sure = {pair for pair in pairs if _is_sure(snapshot, *pair, since[pair])}
    missing: dict[str, list[str]] = {}
    for broker_name, client_id in sorted(sure or pairs):
        missing.setdefault(broker_name, []).append(client_id)
    since_ms = min(since[pair] for pair in sure or pairs)
    starving = _starving(snapshot)
    views = {
        name: sorted(member.client_id for member in view.values())
        for name, view in sorted(snapshot.state.membership.views.items())
    }
    return {
        SPLIT_VIEW: Finding(
            kind=SPLIT_VIEW,
            cause=SPLIT_VIEW,
            severity="critical" if starving else "warning",
            since_ms=since_ms,
            text=prose.describe_split_view(snapshot.labels, missing, starving, since_ms),
            labels=snapshot.labels,
            broker_name=",".join(missing),
            queues=starving,
            evidence={"views": views, "missing": missing},
            is_ready=bool(sure),
        )
    }


def _since(snapshot: GroupSnapshot, pairs: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """(broker, ClientId) → since when it is missing there: in a roll-out another one is, evaluation by evaluation."""
    since = {pair: snapshot.since(split_condition(*pair), holds=True) or snapshot.now_ms for pair in sorted(pairs)}
    held = {split_condition(*pair) for pair in pairs}
    for condition in [name for name in snapshot.state.conditions if name.startswith(f"{SPLIT_VIEW}|")]:
        snapshot.since(condition, condition in held)
    return since


def _is_sure(snapshot: GroupSnapshot, broker_name: str, client_id: str, since_ms: int) -> bool:
    return client_id in snapshot.cut_off.get(broker_name, ()) or snapshot.is_settled(since_ms)


def _starving(snapshot: GroupSnapshot) -> tuple[str, ...]:
    """Queues that nobody pulls while their owner works from another list, or cannot reach their broker."""
    names = set()
    for topic, topic_state in snapshot.shared_topics():
        if not is_quiet(topic_state):
            continue
        evidence = snapshot.evidence(topic, topic_state)
        for name, queue_state in topic_state.queues.items():
            owner, cut_off = queue_state.share.owner or "", evidence.cut_off.get(queue_order(name)[0], ())
            if queue_state.verdict in (UNOWNED, NOT_CONSUMED) and (
                owner in cut_off or evidence.explained.get(owner) == SPLIT_VIEW
            ):
                names.add(name)
    return tuple(sorted(names, key=queue_order))


def _lacking(snapshot: GroupSnapshot) -> dict[str, list[str]]:
    """Broker → ClientIds that it should list and does not: those alive that subscribe a topic it serves."""
    views = snapshot.state.membership.views
    masters = {topic: route.broker_names() - set(route.without_master) for topic, route in snapshot.routes.items()}
    brokers = set().union(*masters.values())
    listed = {name: {member.client_id for member in views.get(name, {}).values()} for name in brokers}
    if len({frozenset(client_ids) for client_ids in listed.values()}) < 2:
        return {}
    topics = {member.client_id: member.topics for _, member in snapshot.judged_members()}
    expected: dict[str, set[str]] = {}
    for client_id in topics.keys() - snapshot.late:
        for topic in topics[client_id]:
            for broker_name in masters.get(topic, ()):
                expected.setdefault(broker_name, set()).add(client_id)
    lacking = {}
    late_ms = snapshot.now_ms - snapshot.rules.heartbeat_late_ms
    for broker_name, client_ids in sorted(expected.items()):
        is_on_time = any(member.last_heartbeat_ms > late_ms for member in views.get(broker_name, {}).values())
        is_reached = is_on_time and broker_name not in snapshot.broker_coverage.silent
        is_heard = is_reached or broker_name in snapshot.broker_coverage.answered
        unlisted = client_ids - listed[broker_name]
        if broker_name in snapshot.broker_coverage.without_data or not is_heard:
            continue
        if unlisted:
            lacking[broker_name] = sorted(unlisted)
    return lacking
