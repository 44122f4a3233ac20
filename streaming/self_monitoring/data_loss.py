"""Detection of lost data: messages that Kafka deleted before a query read them, and damaged commits of the tables.

Kafka deletes unread messages if `run` is down for longer than Kafka's retention, or if a topic is deleted and
recreated. With `queries.fail_on_data_loss` the query does not start. Without it the query continues, and one alert
`data_loss` of the cluster `balancewatch` is written; it resolves after an hour without further loss, in this run or a
later one.

Not detected: a recreated topic with at least as many messages as were read from the old one.

A power cut can damage commits of the tables (`streaming.warehouse.delta_log`). One alert `data_loss` per table names
them; it resolves an hour later.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from operator import index
from pathlib import Path
from typing import Any

import structlog
from kafka.errors import KafkaError

from conf.location import is_store
from conf.settings import Settings
from schemas.tables import ALERTS, TABLES
from streaming.kafka_io.consumer import Span, open_consumer, read_spans
from streaming.kafka_io.topics import KafkaUnreachableError
from streaming.queries.checkpoint import Position, checkpoint_of, put_back, read_position
from streaming.queries.written_batch import WrittenBatch
from streaming.self_monitoring.self_alerts import SelfAlert, read_open
from streaming.system.known_error import BalancewatchError
from streaming.text.times import wall_ms
from streaming.warehouse.delta_log import Damage, find_damage
from streaming.warehouse.rows import arrow_table
from streaming.warehouse.tables import table_path
from streaming.warehouse.writer import DeltalakeWriter
from udfs.alerts.alert import Text, wording
from udfs.alerts.life import Reason
from udfs.alerts.phrase import Fact, Phrase, join_clauses, phrase, plural
from udfs.alerts.self_kinds import DATA_LOSS, LIMITS, OWN_CLUSTER

log = structlog.get_logger()


class DataLossError(BalancewatchError):
    """Kafka deleted messages that a query needs. The message names them and the setting to continue."""


@dataclass(frozen=True)
class Loss:
    """The loss in one partition, which Kafka has from `beginning` to `end`."""

    topic: str
    partition: int
    wanted: int
    beginning: int
    end: int

    @property
    def gone(self) -> int | None:
        """The number of lost messages; None for a recreated topic."""
        return None if self.is_remade else self.beginning - self.wanted

    @property
    def is_remade(self) -> bool:
        return self.wanted > self.end

    @property
    def text(self) -> Phrase:
        at: dict[str, Fact] = {"place": f"{self.topic}-{self.partition}", "offset": self.wanted}
        if self.gone is None:
            return phrase(
                "{place} from offset {offset}, but it ends at {end}: the topic was deleted and recreated, and an "
                "unknown number of messages is lost"
            ).given(end=self.end, **at)
        return plural(
            self.gone,
            "{place} from offset {offset}, but it begins at {beginning}: {number:,} message lost",
            "{place} from offset {offset}, but it begins at {beginning}: {number:,} messages lost",
        ).given(beginning=self.beginning, **at)


def losses_of(name: str, settings: Settings) -> tuple[Position | None, list[Loss]]:
    """Return the query's position and what Kafka no longer has of it. A missing partition counts as empty.

    Raises KafkaUnreachableError.
    """
    try:
        position = read_position(checkpoint_of(name, settings))
    except (OSError, ValueError, KeyError, AttributeError):
        return None, []  # Spark reads it next, and reports what is wrong
    if position is None:
        return None, []
    try:
        with contextlib.closing(open_consumer(settings.kafka)) as consumer:
            spans = read_spans(consumer, {topic for topic, _ in position.wanted})
    except KafkaError as error:
        servers = settings.kafka.bootstrap_servers
        raise KafkaUnreachableError(
            f"kafka.bootstrap_servers = {servers!r}: no broker answers for its offsets ({type(error).__name__})"
        ) from None
    losses = []
    for (topic, partition), wanted in sorted(position.wanted.items()):
        span = spans.get((topic, partition), Span(0, 0))
        planned = position.planned.get((topic, partition), wanted)
        if wanted < span.beginning or planned > span.end:
            losses.append(Loss(topic, partition, wanted if wanted < span.beginning else planned, *span))
    return position, losses


def sentence(name: str, losses: Sequence[Loss]) -> str:
    """Return the error text: the lost messages and the setting that lets the query continue."""
    lost = join_clauses([loss.text for loss in losses])
    return f"the query {name} needs {lost}; set queries.fail_on_data_loss = false to continue without them"


def refuse_losses(name: str, settings: Settings) -> None:
    """Raise DataLossError if `fail_on_data_loss` is set and Kafka lacks what the query reads next."""
    if settings.queries.fail_on_data_loss:
        _, losses = losses_of(name, settings)
        if losses:
            raise DataLossError(sentence(name, losses))


class DataLoss:
    """The data_loss alerts of one `run`: opened before a query starts, resolved later. A BatchListener."""

    def __init__(
        self,
        settings: Settings,
        writer: DeltalakeWriter,
        on_alerts: Callable[[list[dict[str, Any]]], None] = lambda _: None,
    ) -> None:
        """`on_alerts` receives each row of the alerts table after it is written."""
        self._settings, self._writer, self._on_alerts = settings, writer, on_alerts
        self._alerts = read_open(settings.paths.warehouse, DATA_LOSS, _identity, settings.language)

    def look(self, name: str, now_ms: int) -> list[Loss]:
        """Return the losses of a query before it starts.

        It writes the alert to Delta, once even if the start is retried. Recreated partitions are read from their
        beginning.
        """
        if self._settings.queries.fail_on_data_loss:
            return []  # refused before anything was started
        position, losses = losses_of(name, self._settings)
        if position is None or not losses:
            return []
        self._report(_loss_alert(name, position, losses), now_ms)
        remade = {(loss.topic, loss.partition): loss.beginning for loss in losses if loss.is_remade}
        if remade:
            put_back(checkpoint_of(name, self._settings), remade)
        return losses

    def look_at_tables(self, now_ms: int) -> None:
        """Write an alert for each table in a folder with damaged commits; once per damage, however often it starts."""
        warehouse = self._settings.paths.warehouse
        for name in () if is_store(warehouse) else TABLES:
            for damage in find_damage(Path(table_path(warehouse, name))):
                log.warning("damaged commit", table=name, file=damage.file, set_aside=damage.is_set_aside)
                self._report(_damage_alert(name, damage), now_ms)

    def on_batch(self, batch: WrittenBatch) -> None:
        self.progress(batch.query, wall_ms())

    def progress(self, name: str, now_ms: int) -> None:
        """Resolve the alerts of the query and of tables an hour after their last loss; called after each batch."""
        for known in self._alerts:
            if known.alert.labels.get("query", name) == name and now_ms - known.changed_ms >= LIMITS.loss_settled_ms:
                row = self._alerts.resolve(
                    known, now_ms, phrase("Resolved after an hour without further loss: {summary}")
                )
                self._append(known.alert, row, "over")

    def _report(self, alert: SelfAlert, now_ms: int) -> None:
        """Open the alert, or update its incident if that is still open."""
        known, alerts = self._alerts.get(alert.alert_id), self._alerts
        row = alerts.update(known, alert, now_ms, Reason.HOLD_OVER) if known else alerts.open(alert, now_ms)
        self._append(alert, row, "found")

    def _append(self, alert: SelfAlert, row: dict[str, Any], step: str) -> None:
        """Write a row once per loss."""
        identity, number, batch_id = _identity(alert)
        rows = arrow_table([row], ALERTS, batch_id)
        if self._writer.append(ALERTS, rows, f"balancewatch-data-loss-{step}-{identity}", number) is None:
            return  # an earlier start, or an earlier batch, has written it
        self._alerts.note_row(row)
        self._on_alerts([row])


def _alert(of: dict[str, str], text: Text, evidence: dict[str, Any]) -> SelfAlert:
    return SelfAlert(DATA_LOSS, "error", DATA_LOSS, {"cluster": OWN_CLUSTER, **of}, *text, evidence)


def _loss_alert(name: str, position: Position, losses: Sequence[Loss]) -> SelfAlert:
    return _alert(
        {"query": name},
        wording(
            "The query {query} continued without messages that Kafka has deleted: it needed {losses}.",
            "Alerts of the gap may be missing or late. To avoid it, restart `balancewatch run` sooner or raise "
            "kafka.retention_hours.",
        ).given(query=name, losses=join_clauses([loss.text for loss in losses])),
        {
            "ranges": [{**asdict(loss), "gone": loss.gone} for loss in losses],
            "checkpoint_id": position.checkpoint_id,
            "batch_id": position.batch_id,
            "is_committed": position.is_committed,
        },
    )


def _damage_alert(table: str, damage: Damage) -> SelfAlert:
    text = wording(
        "A power cut damaged commit {file} of the table {table}. Newer commits follow, so it stays in the log, and its "
        "rows are missing.",
        "Restore the file from a backup; until then the rows of that commit are missing.",
    )
    if damage.is_set_aside:
        text = wording(
            "A power cut damaged commit {file} of the table {table}. The table continues without its rows.",
            "Alerts and history of the last minute before the power cut may be missing. Check the disk, and what fired "
            "then in your receivers.",
        )
    evidence = {"file": damage.file, "written_ms": damage.written_ms, "is_set_aside": damage.is_set_aside}
    return _alert({"table": table}, text.given(file=damage.file, table=table), evidence)


def _identity(alert: SelfAlert) -> tuple[str, int, int]:
    """Return the id of a loss, its number, and its batch. Raises KeyError or TypeError for evidence without them.

    A loss of messages is known by the query's position, because a batch may lose its planned messages, and later ones
    again; a loss of rows by the file of the damaged commit.
    """
    at = alert.evidence
    if "file" in at:
        return f"{alert.labels['table']}-{at['file']}", index(at["written_ms"]), 0
    batch_id = index(at["batch_id"])
    return at["checkpoint_id"], 2 * batch_id + index(at["is_committed"]), batch_id
