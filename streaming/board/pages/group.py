"""The group page: counts of verdicts, open incidents, the matrix of queues by clients, and the members."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from streaming.board.page import Page, View
from streaming.board.pages.group_tables import MOST_INCIDENTS, Channel, Group, is_alerted_topic, read_group
from streaming.board.pages.matrix import build_matrix, clients_of, count_verdicts, order_queues
from streaming.board.url import AskedError, href, read_choice, read_moment_ms, slice_of
from udfs.alerts.phrase import phrase
from udfs.groups.queue_state import WORST_FIRST, WRONG

QUEUES_A_PAGE = 100
MOST_IN_ORDER = 64
"""Up to this number, queues are in the order in which the strategy assigns them; above it, worst first."""

MOST_BROKERS = 20


def read(view: View) -> dict[str, Any]:
    """Return the values of the page. `asked` are the URL's parameters; the filters are `topic` ("" for all), `verdict`,
    `broker` and `order`.

    bare_topic  a topic of the URL that only alerts name
    of_topic    counts of the topic's queues by verdict; `brokers` are their brokers
    shown       the requested page of the chosen queues, `matrix` these by client
    """
    asked = view.asked
    if not asked.get("group"):
        raise AskedError(phrase("group is missing: give a consumer group, as in {path}.", path="/group?group=billing"))
    at_ms = read_moment_ms(asked, "at", view.now_ms)
    group = read_group(view.history, asked.get("cluster"), asked["group"], at_ms)
    if at_ms is None:
        group = replace(group, incidents=view.with_silences(group.incidents))
    topics, topic = group.topics(), asked.get("topic", "")
    is_bare = topic not in ("", *topics) and is_alerted_topic(view.history, group, topic)
    if not is_bare:
        topic = read_choice(asked, "topic", topics) if topics else ""
    of_topic = [queue for queue in group.queues if not topic or queue.topic == topic]
    brokers = sorted({queue.broker_name for queue in of_topic})
    verdict = read_choice(asked, "verdict", WORST_FIRST)
    broker = read_choice(asked, "broker", brokers) if brokers else ""
    order = read_choice(asked, "order", ("queue", "worst"), "worst" if len(of_topic) > MOST_IN_ORDER else "queue")
    chosen = [queue for queue in of_topic if verdict in ("", queue.verdict) and broker in ("", queue.broker_name)]
    shown = slice_of(order_queues(chosen, order), asked, QUEUES_A_PAGE)
    return {
        "asked": asked,
        "group": group,
        "topic": topic,
        "bare_topic": topic if is_bare else "",
        "of_topic": count_verdicts(of_topic),
        "brokers": brokers,
        "verdict": verdict,
        "broker": broker,
        "order": order,
        "shown": shown,
        "matrix": build_matrix(group, shown.items),
    }


MOST_MEMBERS = 30


def members_of(channels: Sequence[Channel]) -> list[dict[str, Any]]:
    """Return the members sorted by ClientId, as allocation strategies sort them; twins are separate.

    Language, version and strategy are those of the first channel that reports each.
    """
    by_id: dict[str, list[Channel]] = {}
    for channel in channels:
        by_id.setdefault(channel.client_id, []).append(channel)
    members = []
    for client in clients_of(channels):
        own = [channel for channel in by_id[client.client_id] if channel.client_addr in client.addrs]
        members.append(
            {
                "client": client,
                **{
                    name: next((value for channel in own if (value := getattr(channel, name))), None)
                    for name in ("language", "client_version", "strategy")
                },
                "topics": sorted({topic for channel in own for topic in channel.topics}),
                "brokers": sorted({channel.broker_name for channel in own}),
                "joined_ms": min(channel.joined_ms for channel in own),
            }
        )
    return members


def draw(page: Mapping[str, Any]) -> Mapping[str, Any]:
    group: Group = page["group"]
    asked = {"cluster": group.cluster, "group": group.consumer_group, "at": page["asked"].get("at")}
    twins, topics = group.twins(), [*group.topics(), *filter(None, [page["bare_topic"]])]
    members = sorted(
        members_of(group.channels),
        key=lambda member: (member["client"].client_id not in twins, not member["client"].place),
    )
    return {
        "verdicts": count_verdicts(group.queues),
        "worst": order_queues(page["shown"].items, "worst")[:1],
        "members": members,
        "most_members": MOST_MEMBERS,
        "most_incidents": MOST_INCIDENTS,
        "most_brokers": MOST_BROKERS,
        "twins": twins,
        "hrefs": {
            queue.key: href("/history", {**asked, "topic": queue.topic, "queue": queue.name})
            for queue in page["shown"].items
        },
        "incidents": _incidents_by_queue(page),
        "brokers": _worst_brokers(group) if len(group.queues) > MOST_IN_ORDER else [],
        "topics": topics,
        "verdict_choices": [
            (name, f"{name} ({page['of_topic'][name]:,})") for name in WORST_FIRST if page["of_topic"][name]
        ],
    }


def _incidents_by_queue(page: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return kind and ID of the first incident that lists each queue; causes come before effects."""
    known = {queue.key for queue in page["shown"].items if queue.verdict in WRONG}
    found: dict[str, tuple[str, str]] = {}
    for incident in page["group"].incidents:
        for name in incident["queues"]:
            if (key := f"{incident['topic']} {name}") in known:
                found.setdefault(key, (incident["kind"], incident["incident_id"]))
    return found


def _worst_brokers(group: Group) -> list[tuple[str, Counter[str]]]:
    """Return the verdicts per broker, for groups with too many queues to see that in the matrix."""
    by_broker: dict[str, Counter[str]] = {}
    for queue in group.queues:
        by_broker.setdefault(queue.broker_name, Counter())[queue.verdict] += 1
    return sorted(by_broker.items(), key=lambda item: ([-item[1][name] for name in WRONG], item[0]))


PAGE = Page(
    "group",
    "/group",
    phrase("Group"),
    read,
    draw,
    parameters=frozenset({"cluster", "group", "topic", "at", "verdict", "broker", "order", "page"}),
    tables=frozenset({"acknowledgements", "alerts", "assignments", "backlogs", "memberships", "silences"}),
    back=(phrase("All groups"), "/groups"),
)
