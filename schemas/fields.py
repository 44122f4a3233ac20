"""The metadata of an event's field, and the bounds that limit the cost of one message.

Every field carries in its metadata:

    comment  its meaning and source
    unit     ms, offset, ...; "" for names and flags
    null     the meaning of null or absence; "never" marks a required field

and of its bounds:

    minimum, maximum  of a number
    is_name           of a text: it may not be empty
    max_length        of a text, in characters; default 255 (NAME_CHARACTERS)
    max_items         of a list
    totals            of a list of objects: number field → the largest sum over the list
    max_ahead_ms      of the event's time: the most that it may be later than Kafka's timestamp
"""

from typing import Any

from pyspark.sql import types as T

NEVER = "never"

NAME_CHARACTERS = 255
"""Of any name. RocketMQ's own Validators take 127 of a topic and 255 of a group; a ClientId has an instance name."""

EXPRESSION_CHARACTERS = 16_384
"""Of a tag or SQL92 expression."""

MOST_QUEUES = 16_384
"""Of one topic, over all its brokers. Each consumer group has a verdict per queue at each clock event.

This number takes half a second of one core, and 5 MB of state, per group."""

MOST_BROKERS = 1_024
MOST_GROUPS = 10_000

FIRST_MS = 1_325_376_000_000
"""2012-01-01, before the first RocketMQ. An earlier time is a clock that was never set."""


def field_of(
    name: str, type_: T.DataType, comment: str, *, unit: str = "", null: str = NEVER, **bounds: Any
) -> T.StructField:
    metadata: dict[str, Any] = {"comment": comment, "unit": unit, "null": null, **bounds}
    return T.StructField(name, type_, nullable=null != NEVER, metadata=metadata)


def name_of(name: str, comment: str, *, null: str = NEVER) -> T.StructField:
    """Return a name's field. A required name may not be empty; an optional one may."""
    field = field_of(name, T.StringType(), comment, null=null)
    if null == NEVER:
        field.metadata["is_name"] = True
    return field


def list_of(*fields: T.StructField) -> T.ArrayType:
    return T.ArrayType(T.StructType(list(fields)), containsNull=False)


STRING, LONG, INTEGER, BOOLEAN = T.StringType(), T.LongType(), T.IntegerType(), T.BooleanType()
STRINGS = T.ArrayType(STRING, containsNull=False)


def event_time(max_ahead_ms: int) -> T.StructField:
    return field_of(
        "event_time_ms",
        LONG,
        "when it happened",
        unit="ms since 1970, UTC",
        minimum=FIRST_MS,
        max_ahead_ms=max_ahead_ms,
    )
