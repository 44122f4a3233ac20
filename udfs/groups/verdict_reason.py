"""Why a verdict is UNKNOWN, NOT_JUDGED, or NOT_CONSUMED without an owner: a code for tables, a sentence for people."""

from collections.abc import Mapping

from udfs.rocketmq.heartbeat import BROADCASTING, GRPC, POP, SERVER_REBALANCE

TOO_NEW = "too_new"
BROKER_NO_DATA = "broker_no_data"
NOT_ASKED, REFUSED, NO_COLLECTOR = "not_asked", "refused", "no_collector"
PULLS_NOT_REPORTED, FLOW_CONTROL, STRATEGY_UNKNOWN = "pulls_not_reported", "flow_control", "strategy_unknown"
STATIC_TOPIC, ASSIGNED, REPLACED, GONE = "static_topic", "assigned", "replaced", "gone"
BROKER = "broker"

VERDICT_REASONS: Mapping[str, str] = {
    TOO_NEW: "It was topic_state, or planned as it is, for too short a time to call a silence one.",
    BROKER_NO_DATA: "The broker gave no data, so nothing is known of what is pulled there.",
    NOT_ASKED: "Its owner gave no data in the newest round: asked without an answer in time, or left in peace since.",
    REFUSED: "The broker answers, and refuses to answer for the group: the collector's account may not read it.",
    NO_COLLECTOR: "The collector that spoke for the group has stopped.",
    PULLS_NOT_REPORTED: (
        "Nobody reports this owner's pulls: its client does not answer which queues it holds (DefaultMQPullConsumer, "
        "LitePull before 5.1.1), or no agent reports the broker's pulls."
    ),
    FLOW_CONTROL: "Its client's cache was full at its last pull, so it need not pull until it has consumed some of it.",
    STRATEGY_UNKNOWN: (
        "The group's allocation strategy rests on options that only its clients know, and nobody was seen to pull."
    ),
    BROADCASTING: "A member consumes by broadcasting: each takes every queue.",
    POP: "A member consumes by POP: the broker hands out messages, not queues.",
    GRPC: "A member is a gRPC client: the proxy hands out messages.",
    SERVER_REBALANCE: "A member lets the broker share out the queues.",
    STATIC_TOPIC: "A static topic: clients hold logical queues, which are not those of the route.",
    ASSIGNED: "No member subscribes the topic; queues are taken by assign(), as each process decides.",
    BROKER: "The broker itself consumes it: the revive log, by which it delivers again what POP consumers leave.",
    REPLACED: "The group has a name of its own for each process, and another process came in its place.",
    GONE: "The queue, its topic or its group is no more, or the group gave the topic up.",
}
"""Code to the sentence that the board and `owner` show."""

NOT_HEARD = (BROKER_NO_DATA, NOT_ASKED, REFUSED, NO_COLLECTOR)
"""Somebody may consume the queue, and nobody was there to see."""

UNASKED: Mapping[str, str] = {"refused": REFUSED, "no_collector": NO_COLLECTOR}
"""What a clock event gives as the reason (broker_coverage.Unasked) to the code; all others are NOT_ASKED."""


def reason_of_unasked(reason: str) -> str:
    """The code for what gave no data; of what passes within minutes one code, so that rows do not come and go."""
    return UNASKED.get(reason, NOT_ASKED)
