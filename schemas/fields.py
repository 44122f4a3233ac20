"""What a field of an event says of itself, and the bounds that keep one message from costing more than one should.

Every field carries in its metadata:

    comment  what it says, and who says it
    unit     ms, offset, ...; "" for names and flags
    null     what null, or absence, means; "never" marks a required field

and of its bounds:

    minimum, maximum  of a number
    is_name           of a text: it may not be empty
    max_length        of a text, in characters; 255 where nothing else is said (NAME_CHARACTERS)
    max_items         of a list
    totals            of a list of objects: number field → the most that its sum over the list may be
    max_ahead_ms      of the event's time: how far it may be after the message reached Kafka
"""

from typing import Any

from pyspark.sql import types as T

NEVER = "never"

NAME_CHARACTERS = 255
"""Of any name. RocketMQ's own Validators take 127 of a topic and 255 of a group; a ClientId has an instance name."""

EXPRESSION_CHARACTERS = 16_384
"""Of a tag or SQL92 expression."""

MOST_QUEUES = 16_384
"""Of one topic, over all its brokers: each costs every one of its consumer groups a verdict at every tick.

So many take half a second of one core, and 5 MB of state, a group."""

MOST_BROKERS = 1_024
MOST_GROUPS = 10_000

FIRST_MS = 1_325_376_000_000
"""2012-01-01: before RocketMQ there was nothing to tell. An earlier time is a clock that was never set."""


def field_of(
    name: str, type_: T.DataType, comment: str, *, unit: str = "", null: str = NEVER, **bounds: Any
) -> T.StructField:
    metadata: dict[str, Any] = {"comment": comment, "unit": unit, "null": null, **bounds}
    return T.StructField(name, type_, nullable=null != NEVER, metadata=metadata)


def name_of(name: str, comment: str, *, null: str = NEVER) -> T.StructField:
    """What must be told may not be empty; of what may be absent an empty text is taken as such."""
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
