"""One round's questions to one broker: its producers, its consumer groups, who is connected for each group.

A broker that does not answer at all ends its part of the round. An answer with a ResponseCode is an answer: what is
refused is named, and the rest is read. One lost answer costs nothing, for each question is asked twice; a group whose
question is lost twice is named, and when the next one is lost too the broker itself does not answer.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import structlog

from conf.settings import Collector
from streaming.collector.access import are_keys_refused
from streaming.collector.reading import BrokerReading, Unheard
from streaming.collector.rocketmq_answers import Broker, Connection, ConsumerConnection
from streaming.collector.rocketmq_jvm import RocketMQError

LOST_IN_A_ROW = 2
"""Groups in a row whose questions are lost, after which the broker itself does not answer."""

log = structlog.get_logger()
Answer = TypeVar("Answer")


class BrokerSource(Protocol):
    """What a broker is asked."""

    def read_groups(self, broker: Broker) -> dict[str, bool]: ...
    def read_consumer_connection(self, broker: Broker, group: str) -> ConsumerConnection | None: ...
    def read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]] | None: ...


class BrokerReader:
    """Reads one broker, round after round. Remembers the groups and members it told last, for when it does not."""

    def __init__(self, settings: Collector, source: BrokerSource, broker_name: str) -> None:
        self._settings = settings
        self._source = source
        self._name = broker_name
        self._groups: tuple[str, ...] = ()
        self._connections: dict[str, ConsumerConnection] = {}
        self._refusals: set[str] = set()
        self._is_silent = False
        self.refusal: RocketMQError | None = None
        """How it refused our keys, whatever was asked, in the newest round."""

    def read(self, broker: Broker) -> tuple[BrokerReading, tuple[Unheard, ...]] | None:
        """What the broker told and what it did not let hear; None when it does not answer."""
        self.refusal = None
        try:
            view, unheard = self._read(broker)
        except RocketMQError as error:
            self.refusal = error if are_keys_refused(error) else None
            if not self._is_silent:
                what = "the broker refuses our keys" if self.refusal else "the broker does not answer"
                log.warning(what, broker_name=self._name, error=str(error))
            self._is_silent = True
            return None
        if self._is_silent:
            log.info("the broker answers again", broker_name=self._name)
        self._is_silent = False
        return view, unheard

    def _read(self, broker: Broker) -> tuple[BrokerReading, tuple[Unheard, ...]]:
        producers = self._read_producers(broker)
        consume_enable = self._read_groups(broker)
        names = self._settings.groups or (self._groups if consume_enable is None else tuple(consume_enable))
        unread = self._read_connections(broker, names)
        enabled = consume_enable or {}
        view = BrokerReading(
            broker,
            tuple(self._connections[name] for name in names if name in self._connections),
            producers or {},
            refused=frozenset(group for group, is_enabled in enabled.items() if not is_enabled),
            group_names=frozenset(enabled) or None,
            unread=frozenset(unread),
            reports_producers=producers is not None,
        )
        return view, tuple(Unheard(self._name, group, None, reason) for group, reason in unread.items())

    def _read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]] | None:
        try:
            producers = self._ask(self._source.read_producers, broker)
        except RocketMQError as error:
            if not error.is_answer or are_keys_refused(error):
                raise
            self._note_refusal("the producers", error)
            return None
        self._refusals.discard("the producers")
        return producers

    def _read_groups(self, broker: Broker) -> dict[str, bool] | None:
        """Group to consumeEnable; None where we may not list them, but know from before or by the settings which
        there are.
        """
        try:
            found = self._ask(self._source.read_groups, broker)
        except RocketMQError as error:
            if not error.is_answer or are_keys_refused(error):
                raise
            self._note_refusal("the list of its groups (collector.groups can name them)", error)
            if not (self._settings.groups or self._groups):
                raise
            return None
        self._refusals.discard("the list of its groups (collector.groups can name them)")
        self._groups = tuple(found)
        return found

    def _read_connections(self, broker: Broker, groups: Iterable[str]) -> dict[str, str]:
        """Group to the reason why its members were not told."""
        unread: dict[str, str] = {}
        connections: dict[str, ConsumerConnection] = {}
        lost = 0
        for group in groups:
            try:
                connection = self._ask(self._source.read_consumer_connection, broker, group)
            except RocketMQError as error:
                if are_keys_refused(error):
                    raise
                if not error.is_answer:
                    lost += 1
                    if lost == LOST_IN_A_ROW:
                        raise
                self._note_refusal(group, error)
                unread[group] = error.reason
                connection = self._connections.get(group)
            else:
                lost = 0
                self._refusals.discard(group)
            if connection is not None:
                connections[group] = connection
        self._connections = connections
        return unread

    def _ask(self, question: Callable[..., Answer], *arguments: object) -> Answer:
        """The answer to a question that is asked again when it is lost, unless the broker was silent before."""
        try:
            return question(*arguments)
        except RocketMQError as error:
            if error.is_answer or self._is_silent:
                raise
            log.debug("asked again", broker_name=self._name, question=arguments[1:], error=str(error))
        return question(*arguments)

    def _note_refusal(self, what: str, error: RocketMQError) -> None:
        """One line for each thing that is not told, not one a round."""
        if what not in self._refusals:
            log.warning("the broker does not tell", broker_name=self._name, what=what, error=str(error))
        self._refusals.add(what)


def join_no_data(parts: Mapping[str, tuple[BrokerReading, tuple[Unheard, ...]]]) -> tuple[Unheard, ...]:
    return tuple(each for _, unheard in parts.values() for each in unheard)
