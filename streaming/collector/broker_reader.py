"""Read one broker in one poll round: its producers, its consumer groups and the connections of each group.

If the broker does not answer, its part of the round ends. A response with an error code counts as an answer: refused
data is named and the rest is read. Each request is retried once. A group whose request is lost twice is named; if the
next group's request is lost too, the broker counts as unreachable.
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
"""Groups in a row whose requests are lost before the broker counts as unreachable."""

GROUP_LIST = "list of groups; set collector.groups to name them"

log = structlog.get_logger()
Answer = TypeVar("Answer")


class BrokerSource(Protocol):
    """The requests to a broker."""

    def read_groups(self, broker: Broker) -> dict[str, bool]: ...
    def read_consumer_connection(self, broker: Broker, group: str) -> ConsumerConnection | None: ...
    def read_producers(self, broker: Broker) -> dict[str, tuple[Connection, ...]] | None: ...


class BrokerReader:
    """A reader of one broker. It keeps the last known groups and members for rounds in which they are missing."""

    def __init__(self, settings: Collector, source: BrokerSource, broker_name: str) -> None:
        self._settings = settings
        self._source = source
        self._name = broker_name
        self._groups: tuple[str, ...] = ()
        self._connections: dict[str, ConsumerConnection] = {}
        self._refusals: set[str] = set()
        self._is_silent = False
        self.refusal: RocketMQError | None = None
        """The refusal of the ACL keys in the newest round, if any."""

    def read(self, broker: Broker) -> tuple[BrokerReading, tuple[Unheard, ...]] | None:
        """Return the broker's data and the missing data; None if the broker does not answer."""
        self.refusal = None
        try:
            view, unheard = self._read(broker)
        except RocketMQError as error:
            self.refusal = error if are_keys_refused(error) else None
            if not self._is_silent:
                event = "broker refused the ACL keys" if self.refusal else "broker unreachable"
                log.warning(event, broker_name=self._name, error=str(error))
            self._is_silent = True
            return None
        if self._is_silent:
            log.info("broker recovered", broker_name=self._name)
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
            self._note_refusal("producers", error)
            return None
        self._refusals.discard("producers")
        return producers

    def _read_groups(self, broker: Broker) -> dict[str, bool] | None:
        """Return group to consumeEnable; None if listing is refused and earlier rounds or settings name the groups."""
        try:
            found = self._ask(self._source.read_groups, broker)
        except RocketMQError as error:
            if not error.is_answer or are_keys_refused(error):
                raise
            self._note_refusal(GROUP_LIST, error)
            if not (self._settings.groups or self._groups):
                raise
            return None
        self._refusals.discard(GROUP_LIST)
        self._groups = tuple(found)
        return found

    def _read_connections(self, broker: Broker, groups: Iterable[str]) -> dict[str, str]:
        """Read the members of each group; return group to reason for those that could not be read."""
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
        """Return the answer; retry a lost request once, unless the broker was already unreachable."""
        try:
            return question(*arguments)
        except RocketMQError as error:
            if error.is_answer or self._is_silent:
                raise
            log.debug("request retried", broker_name=self._name, question=arguments[1:], error=str(error))
        return question(*arguments)

    def _note_refusal(self, what: str, error: RocketMQError) -> None:
        """Log refused data once, not every round."""
        if what not in self._refusals:
            log.warning("broker refused data", broker_name=self._name, data=what, error=str(error))
        self._refusals.add(what)


def join_no_data(parts: Mapping[str, tuple[BrokerReading, tuple[Unheard, ...]]]) -> tuple[Unheard, ...]:
    return tuple(each for _, unheard in parts.values() for each in unheard)
