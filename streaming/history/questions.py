"""Commands that print the rows of one table, as data: faults, assignments, members, deliveries."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from schemas.tables import ALERT_DELIVERIES, ALERTS, ASSIGNMENTS, FAULT_ITEMS, MEMBERSHIPS
from streaming.history.query_options import GLOB, Broker, Cluster, Group, Topic
from streaming.history.table_question import Named, Question, any_of, command_of, equals
from streaming.terminal.completion import complete_choices
from streaming.terminal.printing import Layout, Records, print_table, styled_state, time_columns


def name_option(text: str, metavar: str = GLOB, values: Sequence[str] = ()) -> Any:
    """Return an option for a name or glob, or for values of a closed list."""
    return typer.Option(help=text, metavar=metavar, autocompletion=complete_choices(values) if values else None)


def _option(text: str) -> Any:
    return Annotated[str | None, name_option(text)]


def closed_name(column: str, text: str, values: tuple[str, ...], metavar: str = "", **defaults: Any) -> Named:
    """Return an option for values of a closed list, which a column or an SQL expression has."""
    option = name_option(text, metavar or column.upper(), values)
    return Named(Annotated[str | None, option], equals(column), values, **defaults)


def _state(text: str, sql: str, values: tuple[str, ...], **defaults: Any) -> Named:
    return closed_name(sql, text, values, "STATE", **defaults)


def _table(layout: Layout) -> Callable[[Records], None]:
    return lambda rows: print_table(rows, layout)


CLUSTER = Named(Cluster, equals("cluster"))
PLACE = {"cluster": CLUSTER, "group": Named(Group, equals("consumer_group")), "topic": Named(Topic, equals("topic"))}
BROKER = Named(Broker, equals("broker_name"))
BROKER_OF_ALERT = Named(
    Broker,
    any_of(
        "list_concat(string_split(coalesce(broker_name, ''), ','), "
        "list_transform(coalesce(queues, []), lambda queue: regexp_replace(queue, ':[0-9]+$', '')))"
    ),
)
"""Of the alert or of its queues."""

faults = command_of(
    Question(
        table=FAULT_ITEMS,
        help="""List FaultItems: which producer avoids which broker, and until when.

        Rows are oldest first. --current and --at show the newest row of each producer and broker.

        Example: balancewatch faults --current --state unavailable

        Example: balancewatch faults --broker broker-b --since 2h --format csv
        """,
        names={
            "state": _state(
                "Only this state: available or unavailable.",
                "CASE WHEN available THEN 'AVAILABLE' ELSE 'UNAVAILABLE' END",
                ("AVAILABLE", "UNAVAILABLE"),
            ),
            "cluster": CLUSTER,
            "broker": BROKER,
            "client": Named(_option("Only the producer with this ClientId, or a glob."), equals("client_id")),
        },
        show=_table(
            {
                **time_columns("changed_at"),
                "broker": lambda row: f"{row['broker_name']} of {row['cluster']}",
                "producer": lambda row: f"{row['client_id']} ({row['client_version']})",
                "state": lambda row: styled_state("available" if row["available"] else "unavailable"),
                "latency": lambda row: (
                    f"{row['current_latency_ms']:,} ms" + (", send failed" if row["isolation"] else "")
                ),
                **time_columns("start_timestamp", "avoided until"),
            }
        ),
        nothing="No FaultItem matches.",
    )
)

VERDICTS = ("OK", "UNOWNED", "NOT_CONSUMED", "DOUBLE_CONSUMED", "MISPLACED", "NOT_JUDGED", "UNKNOWN")

assignments = command_of(
    Question(
        table=ASSIGNMENTS,
        help="""List queue assignments: planned owner, actual consumers and verdict.

        Rows are oldest first. --current and --at show the newest row of each queue. A queue of a starved_queue alert
        is UNOWNED (no planned owner, no client pulls it) or NOT_CONSUMED (its planned owner does not consume it).

        Example: balancewatch assignments --current --group billing

        Example: balancewatch assignments --at 03:12 --state UNOWNED,NOT_CONSUMED --format json

        Example: balancewatch assignments --since 2h --topic 'orders*' --broker broker-a --format parquet >
        moves.parquet
        """,
        names={
            "state": _state(f"Only these verdicts, with commas: {', '.join(VERDICTS)}.", "verdict", VERDICTS),
            **PLACE,
            "broker": BROKER,
        },
        show=_table(
            {
                **time_columns("changed_at"),
                "queue": lambda row: (
                    f"{row['topic']} {row['broker_name']}:{row['queue_id']} "
                    f"of {row['consumer_group']} ({row['cluster']})"
                ),
                "verdict": lambda row: styled_state(row["verdict"]),
                "planned owner": lambda row: row["planned_owner"] or "none",
                "consumed by": lambda row: " and ".join(filter(None, row["observed_owners"] or ())) or "none",
            }
        ),
        nothing="No queue matches.",
    )
)

CHANGES = ("JOINED", "CHANGED", "LEFT", "EXPIRED")
MEMBERS = ("JOINED", "CHANGED")

members = command_of(
    Question(
        table=MEMBERSHIPS,
        help="""List changes in group membership, as each broker reports them.

        Rows are oldest first: JOINED, CHANGED, LEFT or EXPIRED. --current and --at show the members at that time, a
        row a channel; add --state LEFT,EXPIRED for former members.

        Example: balancewatch members --current --group billing

        Example: balancewatch members --current --state LEFT,EXPIRED

        Example: balancewatch members --since 2h --client '10.0.0.5@*' --format json
        """,
        names={
            "state": _state(
                f"Only these changes, with commas: {', '.join(CHANGES)}. Default with --current or --at: "
                f"{','.join(MEMBERS)}.",
                "change",
                CHANGES,
                of_current=MEMBERS,
                of_at=MEMBERS,
            ),
            **PLACE,
            "topic": Named(
                _option("Only members that subscribe to this topic, or a glob."), any_of("coalesce(topics, [])")
            ),
            "broker": BROKER,
            "client": Named(_option("Only this ClientId, or a glob."), equals("client_id")),
        },
        show=_table(
            {
                **time_columns("changed_at"),
                "change": lambda row: styled_state(row["change"]),
                "member": lambda row: f"{row['client_id']} at {row['client_addr']}",
                "group, broker's view": lambda row: (
                    f"{row['consumer_group']}, {row['broker_name']} of {row['cluster']}"
                ),
                "subscribes": lambda row: " ".join(filter(None, row["topics"] or ())),
                "runs": lambda row: " ".join(filter(None, (row["language"], row["client_version"], row["strategy"]))),
            }
        ),
        nothing="No member matches.",
    )
)

OUTCOMES = ("PENDING", "DELIVERED", "RETRYING", "REFUSED", "SILENCED", "INHIBITED", "LIMITED", "NO_ROUTE")

deliveries = command_of(
    Question(
        table=ALERT_DELIVERIES,
        help="""List notifications: receiver, outcome and reason.

        Rows are oldest first. --current and --at show the newest row of each incident, receiver and state. PENDING
        and RETRYING are not delivered yet.

        Example: balancewatch deliveries --since 1d --state REFUSED,RETRYING

        Example: balancewatch deliveries --incident c87a8d88 --format json
        """,
        names={
            "state": _state(f"Only these outcomes, with commas: {', '.join(OUTCOMES)}.", "outcome", OUTCOMES),
            "incident": Named(
                _option("Only this incident: an id, its prefix, or a glob."), equals("incident_id"), is_prefix=True
            ),
            "receiver": Named(_option("Only this receiver, or a glob."), equals("receiver")),
            **PLACE,
            "broker": Named(Broker, any_of("string_split(coalesce(broker_name, ''), ',')")),
        },
        wrap=(
            "SELECT log.*, incident.cluster, incident.consumer_group, incident.topic, incident.broker_name "
            "FROM {rows} AS log LEFT JOIN (SELECT DISTINCT ON (incident_id) incident_id, cluster, consumer_group, "
            "topic, broker_name FROM alerts ORDER BY incident_id, changed_at DESC) AS incident USING (incident_id)"
        ),
        beside=(ALERTS,),
        show=_table(
            {
                **time_columns("delivered_at"),
                "incident": lambda row: f"{row['incident_id']} {row['kind'] or ''} {row['status'] or ''}".strip(),
                "of": lambda row: " ".join(filter(None, (row["cluster"], row["consumer_group"], row["topic"]))),
                "receiver": lambda row: "none" if row["receiver"] == "*" else row["receiver"],
                "outcome": lambda row: styled_state(row["outcome"] or ""),
                "attempt": lambda row: (
                    f"{row['attempt']}: {row['code'] or 'no code'} in {row['latency_ms']} ms" if row["attempt"] else ""
                ),
                "reason": lambda row: row["reason"] or "",
            }
        ),
        nothing="No delivery matches.",
    )
)
