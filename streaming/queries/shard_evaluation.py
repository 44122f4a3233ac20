"""One group of a shard at one tick: left alone while it is calm, or looked at in full, and what that says."""

from streaming.queries.set_aside import as_after_a_gap, come_back, is_set_aside, is_tried_again
from streaming.queries.shard_clock import Heard
from streaming.queries.shard_rows import assignment_row
from streaming.queries.shard_values import GroupEntry
from streaming.queries.working_set import WorkingSet
from udfs.alerts.rules import Rules
from udfs.groups.calm import are_held
from udfs.groups.deadlines import calm_until
from udfs.groups.frozen_process import frozen_of
from udfs.groups.group import tick


def stays_calm(work: WorkingSet, cluster: str, name: str, heard: Heard, rules: Rules) -> bool:
    """Whether the group is calm, and only repetitions have come: none of its deadlines has passed since."""
    entry = work.cluster(cluster).groups.get(name)
    if entry is None or not entry.is_calm:
        return False
    group = work.group(cluster, name, heard.now_ms)
    if calm_until(group, heard.rules_of(rules)) <= heard.now_ms:
        return False
    work.enter(cluster, name, calm_until(group, rules), is_calm=True)
    return True


def evaluate(work: WorkingSet, cluster: str, name: str, heard: Heard, rules: Rules) -> None:
    """All that the rules have to say of the group now, as rows; its entry says when to look again."""
    now_ms, broker_coverage = heard.now_ms, heard.broker_coverage
    group = work.change(cluster, name, now_ms)
    topics = {topic for _, member in group.membership.members() for topic in member.topics} | group.topics.keys()
    routes = {topic: route for topic in sorted(topics) if (route := work.route(cluster, topic))}
    if is_set_aside(group):
        if not is_tried_again(work, group, now_ms):
            return
        group.is_stale = True
        brokers = {broker_name for route in routes.values() for broker_name in route.broker_names()}
        broker_coverage = as_after_a_gap(broker_coverage, group, brokers, now_ms)
    outcome = tick(group, routes, now_ms, broker_coverage, heard.rules_of(rules))
    work.put_changes(group, outcome.changes)
    if frozen := frozen_of(group):
        work.cluster(cluster).frozen[name] = frozen
    else:
        work.cluster(cluster).frozen.pop(name, None)
    rows = (assignment_row(group, row, outcome.completeness, now_ms) for row in outcome.ownership)
    work.put("assignments", rows)
    work.put_alerts(outcome.transitions)
    if is_set_aside(group):
        work.put_alerts([come_back(group, now_ms)])
    if group.is_forgotten():
        work.drop_group(cluster, name)
    else:
        is_calm = outcome.is_calm and not group.is_stale and are_held(group, rules)
        due_ms = calm_until(group, rules) if is_calm else outcome.due_ms  # as if rounds were close together
        due_ms = now_ms + 1 if outcome.is_calm and not is_calm else due_ms
        work.cluster(cluster).groups[name] = GroupEntry(due_ms, sorted(topics), is_calm)
