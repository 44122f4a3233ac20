"""Is it alive, is it ready: rules over the signs of life, each a sentence when it is broken. The clock is the caller's.

Alive is what a restart would mend; ready is what a look, a rolling update or a page wants to know.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class QuerySigns:
    """`age_seconds` since it ended a batch or found nothing to do; `has_worked` once it has since the service began."""

    age_seconds: float
    is_running: bool
    has_worked: bool


@dataclass(frozen=True)
class Signs:
    """`jvm_age_seconds` since the JVM answered, None before it is there. `queries` has each that is expected, by name.

    A query that is not there yet is None. Without `has_jvm` none is waited for. `parts` says of each
    thread whether it lives.
    """

    jvm_age_seconds: float | None = None
    queries: Mapping[str, QuerySigns | None] = field(default_factory=dict)
    parts: Mapping[str, bool] = field(default_factory=dict)
    has_jvm: bool = True


def reasons_not_alive(signs: Signs, unhealthy_after_seconds: float) -> Iterator[str]:
    """Yield the reasons to restart the process; none during startup."""
    for part, is_alive in signs.parts.items():
        if not is_alive:
            yield f"the thread {part} is dead"
    if signs.jvm_age_seconds is not None and signs.jvm_age_seconds > unhealthy_after_seconds:
        yield f"the JVM has not answered for {signs.jvm_age_seconds:.0f} s"
    for name, query in signs.queries.items():
        if query is not None and query.age_seconds > unhealthy_after_seconds:
            yield f"the query {name} has shown no progress for {query.age_seconds:.0f} s"


def reasons_not_ready(signs: Signs, unready_after_seconds: float) -> Iterator[str]:
    """Yield the reasons why data may be old or incomplete, including those of `reasons_not_alive`."""
    if signs.jvm_age_seconds is None and signs.has_jvm:
        yield "Spark is starting"
    for name, query in signs.queries.items():
        if query is None:
            yield f"the query {name} has not started"
        elif not query.is_running:
            yield f"the query {name} has stopped"
        elif not query.has_worked:
            yield f"the query {name} has not finished its first batch"
    yield from reasons_not_alive(signs, unready_after_seconds)
