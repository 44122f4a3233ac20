"""Why a queue's verdict is UNKNOWN or NOT_JUDGED: a code for tables, a sentence for people."""

from collections.abc import Mapping

TOO_NEW = "too_new"
BROKER_UNHEARD = "broker_unheard"
NOT_ASKED, REFUSED, NO_COLLECTOR = "not_asked", "refused", "no_collector"
NO_PULLS_TOLD, HELD_BACK, STRATEGY_UNKNOWN = "no_pulls_told", "held_back", "strategy_unknown"
BROADCASTING, POP, GRPC, SERVER_REBALANCE = "broadcasting", "pop", "grpc", "server_rebalance"
STATIC_TOPIC, ASSIGNED, REPLACED, GONE = "static_topic", "assigned", "replaced", "gone"

VERDICT_REASONS: Mapping[str, str] = {
    TOO_NEW: "It was watched, or planned as it is, for too short a time to call a silence one.",
    BROKER_UNHEARD: "The broker was not heard, so nothing is known of what is pulled there.",
    NOT_ASKED: "Its owner was not heard in the newest round: asked without an answer in time, or left in peace since.",
    REFUSED: "The broker answers, and refuses to tell of the group: the collector's account may not read it.",
    NO_COLLECTOR: "The collector that spoke for the group has stopped.",
    NO_PULLS_TOLD: (
        "Nobody tells this owner's pulls: its client does not answer which queues it holds (DefaultMQPullConsumer, "
        "LitePull before 5.1.1), or no agent tells the broker's pulls."
    ),
    HELD_BACK: "Its client's cache was full at its last pull, so it need not pull until it has consumed some of it.",
    STRATEGY_UNKNOWN: (
        "The group's allocation strategy rests on options that only its clients know, and nobody was seen to pull."
    ),
    BROADCASTING: "A member consumes by broadcasting: each takes every queue.",
    POP: "A member consumes by POP: the broker hands out messages, not queues.",
    GRPC: "A member is a gRPC client: the proxy hands out messages.",
    SERVER_REBALANCE: "A member lets the broker share out the queues.",
    STATIC_TOPIC: "A static topic: clients hold logical queues, which are not those of the route.",
    ASSIGNED: "No member subscribes the topic; queues are taken by assign(), as each process decides.",
    REPLACED: "The group has a name of its own for each process, and another process came in its place.",
    GONE: "The queue, its topic or its group is no more, or the group gave the topic up.",
}
"""Code to the sentence that the board and `owner` show."""

NOT_HEARD = (BROKER_UNHEARD, NOT_ASKED, REFUSED, NO_COLLECTOR)
"""Somebody may consume the queue, and nobody was there to hear."""

UNASKED: Mapping[str, str] = {"refused": REFUSED, "no_collector": NO_COLLECTOR}
"""What a clock event gives as the reason (hearing.Unasked) to the code; all others are NOT_ASKED."""


def reason_of_unasked(reason: str) -> str:
    """The code for what was not heard; of what passes within minutes one code, so that rows do not come and go."""
    return UNASKED.get(reason, NOT_ASKED)
