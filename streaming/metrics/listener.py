"""Spark's progress of each batch, from its listener bus: one call per batch, outside the query's thread.

pyspark's wrapper reads an event field by field, a call into the JVM each; this one takes it as one JSON text.
"""

import json
from collections.abc import Callable
from typing import Any, Protocol

import structlog
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

log = structlog.get_logger()


class Hearer(Protocol):
    """The receiver of progress, called from the bus's thread. `name` is the query's."""

    def started(self, name: str) -> None: ...
    def progressed(self, progress: dict[str, Any]) -> None: ...
    def idled(self, name: str) -> None: ...
    def ended(self, name: str) -> None: ...


class Listener:
    """Spark calls it by these names. Whatever goes wrong is logged, for the bus serves others too.

    A query that is started again is another run: the end of the one before it may be told after that.
    """

    def __init__(self, hearer: Hearer) -> None:
        self._hearer = hearer
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._guard(self._start, event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._guard(lambda one: self._hearer.progressed(json.loads(one.progress().json())), event)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._guard(lambda one: self._report(self._hearer.idled, one), event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._guard(lambda one: self._report(self._hearer.ended, one), event)

    def _start(self, event: Any) -> None:
        name = event.name()
        if name is not None:
            others = {run: known for run, known in self._names.items() if known != name}
            self._names = others | {event.runId().toString(): name}
            self._hearer.started(name)

    def _report(self, heard: Callable[[str], None], event: Any) -> None:
        name = self._names.get(event.runId().toString())
        if name is not None:
            heard(name)

    def _guard(self, work: Callable[[Any], None], event: Any) -> None:
        try:
            work(event)
        except Exception as error:
            log.warning("query progress not exported", error=str(error)[:300])

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012  # as py4j wants it


def listen(spark: SparkSession, hearer: Hearer) -> None:
    """Report the session's queries to the hearer from now on."""
    gateway: Any = SparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # pyspark gives it none
    session: Any = spark
    wrapper = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
    session._jsparkSession.streams().addListener(wrapper(Listener(hearer)))
