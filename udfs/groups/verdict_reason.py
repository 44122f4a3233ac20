"""The reason of a verdict UNKNOWN, NOT_JUDGED, or NOT_CONSUMED without an owner: a code for tables and a sentence."""

from collections.abc import Mapping

from udfs.alerts.phrase import Phrase, phrase
from udfs.rocketmq.heartbeat import BROADCASTING, GRPC, POP, SERVER_REBALANCE

TOO_NEW = "too_new"
BROKER_NO_DATA = "broker_no_data"
NOT_ASKED, REFUSED, NO_COLLECTOR = "not_asked", "refused", "no_collector"
PULLS_NOT_REPORTED, FLOW_CONTROL, STRATEGY_UNKNOWN = "pulls_not_reported", "flow_control", "strategy_unknown"
STATIC_TOPIC, ASSIGNED, REPLACED, GONE = "static_topic", "assigned", "replaced", "gone"
BROKER = "broker"

VERDICT_REASONS: Mapping[str, Phrase] = {
    TOO_NEW: phrase("The queue or its planned owner is too new: the absence of pulls proves nothing yet."),
    BROKER_NO_DATA: phrase("The broker gave no data, so pulls from it are unknown."),
    NOT_ASKED: phrase(
        "Its owner gave no data in the newest poll round: it did not answer in time, or the collector backs off."
    ),
    REFUSED: phrase("The broker refuses data of this group: the collector's account lacks the permission."),
    NO_COLLECTOR: phrase("The collector that read this group has stopped."),
    PULLS_NOT_REPORTED: phrase(
        "Pulls of this owner are not reported: its client does not report the queues it holds (DefaultMQPullConsumer, "
        "LitePull before 5.1.1), or no agent reports the broker's pulls."
    ),
    FLOW_CONTROL: phrase(
        "The owner's cache was full at its last pull. It pulls again after it has consumed some messages."
    ),
    STRATEGY_UNKNOWN: phrase(
        "The group's allocation strategy depends on options that only its clients know, and no client has pulled."
    ),
    BROADCASTING: phrase("A member consumes by broadcasting: each member consumes every queue."),
    POP: phrase("A member consumes by POP: the broker hands out messages, not queues."),
    GRPC: phrase("A member is a gRPC client: the proxy hands out messages."),
    SERVER_REBALANCE: phrase("A member lets the broker allocate the queues (server-side rebalance)."),
    STATIC_TOPIC: phrase("A static topic: clients hold logical queues, which differ from those of the route."),
    ASSIGNED: phrase("No member subscribes to the topic; each process takes queues by assign()."),
    BROKER: phrase(
        "The broker's own revive log, by which it redelivers messages that POP consumers did not acknowledge."
    ),
    REPLACED: phrase("Each process uses its own group name, and another process has replaced this one."),
    GONE: phrase("The queue, its topic or its group was deleted, or the group gave up the topic."),
}
"""Code → the sentence that the board and `owner` show."""

NOT_HEARD = (BROKER_NO_DATA, NOT_ASKED, REFUSED, NO_COLLECTOR)
"""Missing data: a client may consume the queue unseen."""

UNASKED: Mapping[str, str] = {"refused": REFUSED, "no_collector": NO_COLLECTOR}
"""Reason in a clock event (broker_coverage.Unasked) → code; all others pass within minutes and are NOT_ASKED."""
