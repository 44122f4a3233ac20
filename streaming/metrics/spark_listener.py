"""Spark's reports about a query and its JVM, passed on to Liveness; the one file of the metrics that needs Spark."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from streaming.metrics.liveness import Liveness

log = structlog.get_logger()


class Listener:
    """A listener of Spark's bus; the methods have Spark's names. Failures are logged, because the bus has other users.

    A restarted query is another run, and the end of the earlier run may be reported after the restart. pyspark's own
    wrapper calls the JVM once per field; this listener reads an event as one JSON text.
    """

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._run = ""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
        with _logged():
            if event.name() == self._liveness.query:
                self._run = event.runId().toString()
                self._liveness.started()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        with _logged():
            progress = json.loads(event.progress().json())
            if progress["name"] == self._liveness.query:
                self._liveness.progressed(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
        with _logged():
            if event.runId().toString() == self._run:
                self._liveness.idled()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        with _logged():
            if event.runId().toString() == self._run:
                self._liveness.ended()

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012  # py4j's form


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        log.warning("query progress not exported", error=str(error)[:300])


def listen(spark: SparkSession, liveness: Liveness) -> None:
    """Report the JVM's life and the progress of its queries from now on."""
    gateway: Any = SparkContext._gateway
    liveness.ask_jvm(gateway.jvm.java.lang.Runtime.getRuntime())
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # pyspark gives it none
    session: Any = spark
    wrapper = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
    session._jsparkSession.streams().addListener(wrapper(Listener(liveness)))
