"""The NameServer: registered brokers, and the route of each topic, emitted on change and every 30 s."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from schemas.events import ROUTES
from streaming.simulator.scenario import Topic
from streaming.simulator.world import Event, Process, World
from udfs.rocketmq.model import MessageQueue
from udfs.rocketmq.route import QueueData, Route, TopicPublishInfo, to_topic_publish_info

REGISTER_MS = 30_000
"""BrokerConfig.registerNameServerPeriod."""
BROKER_EXPIRED_MS = 120_000
"""RouteInfoManager.BROKER_CHANNEL_EXPIRED_TIME."""
SCAN_MS = 10_000
"""Period of scanNotActiveBroker."""
EMIT_MS = 30_000
"""Period in which an unchanged route is emitted again."""
CREATED_QUEUE_NUMS = (4, 4)
"""DefaultMQProducer.defaultTopicQueueNums: queues to read and to write per broker of a topic by TBW102's route."""


@dataclass(frozen=True, eq=False, slots=True)
class TopicRoute:
    """TopicRouteData as clients hold it, compared by identity."""

    topic: str
    queue_datas: tuple[QueueData, ...]
    broker_ids: dict[str, tuple[int, ...]]
    mq_all: list[MessageQueue]
    publish_info: TopicPublishInfo


class NameServer:
    """`table` has each broker's configuration of its topics; `routes` come from it and the registered brokers."""

    def __init__(
        self, world: World, broker_names: tuple[str, ...], topics: tuple[Topic, ...], on_change: Callable[[], None]
    ) -> None:
        self.routes: dict[str, TopicRoute] = {}
        self.table: dict[str, dict[str, QueueData]] = {}
        self._world = world
        self._on_change = on_change
        self._is_started = False
        self._broker_names = broker_names
        self._order_topics = {topic.topic for topic in topics if topic.order_topic}
        self._creatable = {topic.topic for topic in topics if topic.auto_create}
        self._registered_ms: dict[tuple[str, int], int] = {}
        for topic in topics:
            read = topic.queue_nums if topic.read_queue_nums is None else topic.read_queue_nums
            write = topic.queue_nums if topic.write_queue_nums is None else topic.write_queue_nums
            names = () if topic.auto_create else topic.broker_names or broker_names
            self.table[topic.topic] = {name: QueueData(name, read, write, topic.perm) for name in names}

    def start(self) -> None:
        """Start to answer, with the brokers registered before."""
        self._is_started = True
        self.update()
        self._world.env.process(self._scan())
        self._world.env.process(self._emit_again())

    def register(self, broker_name: str, broker_id: int) -> None:
        is_new = (broker_name, broker_id) not in self._registered_ms
        self._registered_ms[broker_name, broker_id] = self._world.now_ms
        if is_new:
            self.update()

    def unregister(self, broker_name: str, broker_id: int) -> None:
        """Handle UNREGISTER_BROKER, or a broker's closed channel."""
        if self._registered_ms.pop((broker_name, broker_id), None) is not None:
            self.update()

    def broker_ids(self, broker_name: str) -> tuple[int, ...]:
        """Return the ids of the broker's registered nodes, the master first."""
        return tuple(sorted(broker_id for name, broker_id in self._registered_ms if name == broker_name))

    def default_route(self, topic: str) -> TopicRoute | None:
        """Return TBW102's route for a topic that does not exist yet, where a producer may create it."""
        if topic not in self._creatable:
            return None
        return self._make(topic, [QueueData(name, *CREATED_QUEUE_NUMS, 7) for name in self._broker_names])

    def configure(self, topic: str, datas: Iterable[QueueData]) -> None:
        """Change a topic's queues or perm at these brokers, which register at once."""
        for data in datas:
            self.table[topic][data.broker_name] = data
        self.update()

    def drop_topics(self, broker_name: str) -> None:
        for table in self.table.values():
            table.pop(broker_name, None)
        self.update()

    def create(self, topic: str, broker_name: str) -> None:
        """Create an unknown topic at a broker with autoCreateTopicEnable, which received a message for it."""
        if topic in self._creatable and broker_name not in self.table[topic]:
            self.configure(topic, [QueueData(broker_name, *CREATED_QUEUE_NUMS, 6)])

    def update(self) -> None:
        if not self._is_started:
            return
        for topic, table in self.table.items():
            route = self._make(topic, [data for name, data in table.items() if self.broker_ids(name)])
            known = self.routes.get(topic)
            if not route.queue_datas:
                self.routes.pop(topic, None)  # no event: clients keep the route they have
            elif known is None or (known.queue_datas, known.broker_ids) != (route.queue_datas, route.broker_ids):
                self.routes[topic] = route
                self._emit(route)
        self._on_change()

    def _make(self, topic: str, datas: list[QueueData]) -> TopicRoute:
        broker_ids = {data.broker_name: self.broker_ids(data.broker_name) for data in datas}
        masters = [name for name, ids in broker_ids.items() if 0 in ids]
        conf = ""
        if topic in self._order_topics:
            conf = ";".join(f"{data.broker_name}:{data.write_queue_nums}" for data in self.table[topic].values())
        queue_datas = tuple(datas)
        return TopicRoute(
            topic,
            queue_datas,
            {name: ids for name, ids in broker_ids.items() if ids},
            Route(topic, queue_datas).readable_queues(),
            to_topic_publish_info(topic, queue_datas, masters, conf),
        )

    def _scan(self) -> Process:
        yield self._world.env.timeout(self._world.random.randrange(SCAN_MS))
        while True:
            yield self._world.env.timeout(SCAN_MS)
            now_ms = self._world.now_ms
            expired = [place for place, at_ms in self._registered_ms.items() if now_ms - at_ms > BROKER_EXPIRED_MS]
            for broker_name, broker_id in expired:
                self.unregister(broker_name, broker_id)

    def _emit_again(self) -> Process:
        while True:
            yield self._world.env.timeout(EMIT_MS)
            for route in self.routes.values():
                self._emit(route)

    def _emit(self, route: TopicRoute) -> None:
        event: Event = {
            "cluster": self._world.cluster,
            "topic": route.topic,
            "queues": [asdict(data) for data in route.queue_datas],
            "brokers": [{"broker_name": name, "broker_ids": list(ids)} for name, ids in route.broker_ids.items()],
            "event_time_ms": self._world.now_ms,
        }
        if route.topic in self._order_topics:
            event["order_topic"] = True
        self._world.emit(ROUTES, event)
