"""A scenario as data: one TOML file, validated before it runs.

Times in a file are seconds of virtual time from the start. Field names are RocketMQ's. A consumer also has a unique
`name`, because two consumers may share a client_id.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from udfs.rocketmq.allocation import STRATEGIES

SCENARIOS = Path(__file__).with_name("scenarios")


class ScenarioError(ValueError):
    """A scenario is invalid. The message has one sentence for each fault, with field and value."""


Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(ge=0)]
View = Literal["model", "agents", "collector"]
"""Who monitors a simulated cluster (`Conditions`)."""


def _check_strategy(name: str) -> str:
    if name.partition("-")[0] not in STRATEGIES:
        raise ValueError(f"strategy {name!r} is not one of {', '.join(STRATEGIES)}")
    return name


Strategy = Annotated[str, AfterValidator(_check_strategy)]
"""AllocateMessageQueueStrategy.getName(): "AVG", "MACHINE_ROOM_NEARBY-AVG", ..."""


class Part(BaseModel):
    """A table of a scenario file. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Broker(Part):
    """A broker group. A file may give its name alone."""

    broker_name: Name
    broker_version: str = "5.3.3"
    slaves: int = Field(default=0, ge=0, description="their ids are 1, 2, ...")
    slave_read_enable: bool = Field(default=False, description="whether a slave may be pulled from")
    flush_disk_type: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = Field(
        default="ASYNC_FLUSH", description="SYNC_FLUSH answers a send after the disk has it: 5 to 20 ms later"
    )
    broker_role: Literal["ASYNC_MASTER", "SYNC_MASTER"] = Field(
        default="ASYNC_MASTER",
        description="SYNC_MASTER up to 4.9.8 waits for a slave, and without one answers SLAVE_NOT_AVAILABLE",
    )


BrokerOrName = Annotated[
    Broker, BeforeValidator(lambda broker: {"broker_name": broker} if isinstance(broker, str) else broker)
]


class Topic(Part):
    topic: Name
    queue_nums: int = Field(ge=1, description="readable and writable queues on each broker")
    read_queue_nums: int | None = Field(default=None, ge=0, description="None: queue_nums")
    write_queue_nums: int | None = Field(default=None, ge=0, description="None: queue_nums")
    perm: int = Field(default=6, ge=0, le=7, description="4 read, 2 write")
    broker_names: tuple[Name, ...] | None = Field(default=None, description="brokers that have it; None: all")
    tags: tuple[Name, ...] = Field(default=(), description="of its messages: queue i has only tags[i % count]")
    order_topic: bool = Field(default=False, description="has an orderTopicConf: its queues stay if brokers go down")
    auto_create: bool = Field(
        default=False, description="does not exist until a producer sends to it by TBW102's route"
    )


class Consumer(Part):
    name: Name
    client_id: Name
    host: Name = Field(description="the address brokers see; behind NAT it is not the one in client_id")
    language: str = "JAVA"
    client_version: str = "5.3.3"
    strategy: Strategy | None = Field(default=None, description="None: the group's")
    reports_strategy: bool = Field(default=True, description="whether its heartbeats carry the strategy")
    config_queues: tuple[Name, ...] = Field(default=(), description='CONFIG: "broker:queue_id" of the first topic')
    room: str | None = Field(default=None, description="MACHINE_ROOM_NEARBY: where it runs")
    subscriptions: tuple[Name, ...] | None = Field(default=None, description="topics; None: the group's")
    sub_string: Name = Field(default="*", description="tag expression of its subscriptions")
    assigned_queues: dict[Name, tuple[Name, ...]] = Field(
        default={}, description='topic to "broker:queue_id": it pulls these by assign() and never rebalances'
    )
    process: Name | None = Field(
        default=None,
        description="consumers of one process stop, freeze and lose the network together; those with one client_id "
        "share one MQClientInstance, so one channel and heartbeat",
    )
    never_answers: bool = Field(default=False, description="never returns running info to a collector")
    use_heartbeat_v2: bool = Field(default=False, description="5.1.3+: leaves unchanged subscriptions out")
    running: bool = Field(default=True, description="runs from the start; otherwise a happening starts it")


class Group(Part):
    consumer_group: Name
    subscriptions: tuple[Name, ...] = Field(default=(), description="topics; may be empty where all members assign()")
    strategy: Strategy = "AVG"
    consumer_idcs: tuple[Name, ...] = Field(default=(), description="MACHINE_ROOM: the rooms it covers")
    virtual_nodes: int = Field(default=10, ge=0, description="CONSISTENT_HASH: replicas of a client on the ring")
    message_model: Literal["CLUSTERING", "BROADCASTING"] = "CLUSTERING"
    client_rebalance: bool = Field(default=True, description="false: POP, the broker hands out messages")
    pull_consumers: bool = Field(
        default=False,
        description="DefaultMQPullConsumer: its running info lists no queues, and its offsets are local",
    )
    consume_orderly: bool = Field(default=False, description="MessageListenerOrderly: queues must be locked")
    pull_interval_ms: int = Field(default=0, ge=0, description="DefaultMQPushConsumer.pullInterval")
    lives_with_its_members: bool = Field(
        default=False,
        description="belongs to one process, for example to invalidate a cache; no member is expected afterwards",
    )
    reports_retry_topic: bool = Field(default=False, description="heartbeats list %RETRY%GROUP, as a real broker's do")
    consumers: tuple[Consumer, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Group":
        for consumer in self.consumers:
            if not (consumer.subscriptions or self.subscriptions or consumer.assigned_queues):
                raise ValueError(f"consumer {consumer.name!r} has neither subscriptions nor assigned_queues")
        return self

    def topics_of(self, consumer: Consumer) -> tuple[str, ...]:
        """Return the topics that the consumer subscribes; none if it assigns its queues itself."""
        if consumer.assigned_queues:
            return ()
        return self.subscriptions if consumer.subscriptions is None else consumer.subscriptions


class Producer(Part):
    client_id: Name
    host: Name
    producer_group: Name = "producers"
    language: str = "JAVA"
    client_version: str = "5.3.3"
    topics: tuple[Name, ...] = Field(min_length=1)
    sends_per_second: float = Field(default=2.0, gt=0, le=1000)
    distance_ms: int = Field(default=0, ge=0, description="each send takes this much longer, to every broker")
    send_latency_enable: bool = Field(default=True, description="sendLatencyFaultEnable: keeps FaultItems")
    start_detector_enable: bool = Field(default=False, description="5.1.4+: asks unreachable brokers every 3 s")
    sends_by_key: bool = Field(
        default=False, description="MessageQueueSelector: the key decides the queue; no retry, no FaultItem"
    )


Action = Literal[
    "start", "stop", "crash", "kill", "freeze", "thaw", "reconnect",
    "cut_network", "keep_route", "stop_pulling", "hang_listener", "suspend", "slow_listener",
    "slow_broker", "fail_broker", "stop_broker", "crash_broker", "lose_broker", "press_memory",
    "scale_topic", "set_perm", "disable_consume",
    "recreate_topic", "drop_topics", "burst", "rename_collector", "remove_agents",
]  # fmt: skip
INSTANT = {
    "start", "stop", "crash", "kill", "thaw", "reconnect",
    "recreate_topic", "drop_topics", "burst", "rename_collector", "remove_agents",
}  # fmt: skip
"""`until` ends the other actions; without `until` they are permanent."""
_NEEDS: dict[str, tuple[str, ...]] = {
    "slow_listener": ("consumer", "consume_ms"),
    "slow_broker": ("broker_name", "until", "latency_ms"),
    **dict.fromkeys(("fail_broker", "press_memory"), ("broker_name", "until")),
    **dict.fromkeys(("stop_broker", "crash_broker", "lose_broker", "drop_topics"), ("broker_name",)),
    **dict.fromkeys(("scale_topic", "recreate_topic"), ("topic",)),
    "set_perm": ("topic", "perm"),
    "burst": ("topic", "messages"),
    "disable_consume": ("consumer_group",),
    "rename_collector": ("collector",),
    "remove_agents": (),
}
"""Fields that an action needs; the others need `consumer`."""


class Happening(Part):
    """A change of the cluster, `at` a time and again every `every` seconds.

    Up to keep_route, a consumer's name stands for its process with all its groups; below, for that consumer alone.

    start, stop         a consumer process starts; shuts down cleanly and unregisters
    crash               it dies and its system closes the channels; offsets are not committed
    kill                its host is lost: no channel is closed, brokers expire it after 120 s
    freeze, thaw        SIGSTOP and SIGCONT: it keeps channel and queues and is silent
    reconnect           its channels are replaced by new ones; the old ones fall silent and are not closed
    cut_network         no packet passes between it and `broker_name` (None: any broker)
    keep_route          it no longer polls the NameServer and keeps the routes it has
    stop_pulling        a client bug: it stops pulling `queues` (None: all), and its idle time does not count
    hang_listener       its listener does not return: no commit, and no queue lock is released
    suspend             DefaultMQPushConsumer.suspend(): it makes pulls and sends none, and consumes nothing
    slow_listener       each message of a queue takes `consume_ms`: with a full cache it rarely pulls, but consumes
    slow_broker         sends to a broker take `latency_ms` longer
    fail_broker         sends to a broker end in `error`
    stop_broker         a broker shuts down cleanly: it unregisters and closes its channels
    crash_broker        its process dies: channels and NameServer notice at once, offsets of the last 5 s are lost
    lose_broker         its host is lost: the NameServer drops it after 120 s
    press_memory        a broker's backlog exceeds 40 % of memory: it suggests its slave for pulls
    scale_topic         the topic has `queue_nums` queues on each broker
    set_perm            the topic has `perm` at `broker_name` (None: at all brokers)
    disable_consume     consumeEnable of the group is false: brokers refuse its pulls
    recreate_topic      the topic is deleted and created again; its offsets and commits start at 0
    drop_topics         a broker loses all topics
    burst               the topic receives `messages` at once, spread over its writable queues
    rename_collector    a collector named `collector` replaces the previous one: a standby, or a new pod
    remove_agents       the brokers' agents, which report each heartbeat and pull, end; the collector continues
    """

    at: Seconds
    every: float | None = Field(default=None, gt=0)
    until: Seconds | None = None
    jitter: float = Field(default=0, ge=0, description="maximum delay in seconds by the seed, drawn each time")
    action: Action
    consumer: str | None = None
    broker_name: str | None = None
    broker_id: int | None = Field(default=None, ge=0, description="which node of the broker; None: all")
    topic: str | None = None
    consumer_group: str | None = None
    latency_ms: int | None = Field(default=None, ge=0)
    consume_ms: int | None = Field(default=None, gt=0)
    messages: int | None = Field(default=None, gt=0)
    collector: Name | None = None
    error: Literal["RemotingException", "MQBrokerException"] = "RemotingException"
    queue_nums: int | None = Field(default=None, ge=1)
    read_queue_nums: int | None = Field(default=None, ge=0)
    write_queue_nums: int | None = Field(default=None, ge=0)
    perm: Annotated[int, Field(ge=0, le=7)] | None = None
    queues: tuple[Name, ...] | None = Field(default=None, description='"broker:queue_id", of any topic')

    @property
    def lasts_ms(self) -> int:
        """Duration; 0 for an instant or permanent change."""
        return int((self.until - self.at) * 1000) if self.until is not None else 0

    @model_validator(mode="after")
    def _check(self) -> "Happening":
        for field in _NEEDS.get(self.action, ("consumer",)):
            if getattr(self, field) is None:
                raise ValueError(f"action {self.action!r} needs {field}")
        if self.action == "scale_topic" and not (self.queue_nums or self.read_queue_nums or self.write_queue_nums):
            raise ValueError("action 'scale_topic' needs queue_nums")
        if self.until is not None and self.action in INSTANT:
            raise ValueError(f"action {self.action!r} has no until")
        if self.until is not None and self.until <= self.at:
            raise ValueError(f"until = {self.until:g} is not after at = {self.at:g}")
        if self.every is not None and self.until is not None and self.until - self.at + self.jitter >= self.every:
            raise ValueError(f"every = {self.every:g} begins again before until = {self.until:g}")
        return self


class Rollout(Part):
    """A rollout: `pods` members of a group, replaced by new processes as Kubernetes deployments do.

    style   one_by_one  a pod every `apart` seconds
            quarters    a quarter of the pods every `apart` seconds
            surge       all new pods at once, then all old pods stop
    ids     stable      a pod keeps ClientId and address and is down for `down` seconds
            new         a process with a new ClientId starts `down` seconds before the old one stops
            groups      the same, and each process is the only member of its group
    """

    consumer_group: Name
    subscriptions: tuple[Name, ...] = Field(min_length=1)
    pods: int = Field(ge=1, le=500)
    style: Literal["one_by_one", "quarters", "surge"] = "one_by_one"
    ids: Literal["stable", "new", "groups"] = "stable"
    at: Seconds
    apart: float = Field(default=5.0, gt=0)
    down: float = Field(default=10.0, gt=0)
    client_version: str = "5.3.3"

    @model_validator(mode="after")
    def _check(self) -> "Rollout":
        if self.style == "surge" and self.ids == "stable":
            raise ValueError("style = 'surge' with ids = 'stable' would be twins")
        return self

    def expand(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the groups and happenings that replace the rollout in a scenario."""
        generations = [[self._consumer(number, 0) for number in range(self.pods)]]
        if self.ids != "stable":
            generations.append([self._consumer(number, 1) for number in range(self.pods)])
        happenings = []
        for number in range(self.pods):
            old, new = generations[0][number]["name"], generations[-1][number]["name"]
            steps = (("stop", old), ("start", old)) if self.ids == "stable" else (("start", new), ("stop", old))
            at = self.at + self._turn(number) * self.apart
            for (action, name), seconds in zip(steps, (at, at + self.down), strict=True):
                happenings.append({"at": round(seconds, 3), "action": action, "consumer": name})
        group = {"consumer_group": self.consumer_group, "subscriptions": self.subscriptions}
        if self.ids != "groups":
            return [group | {"consumers": [pod for pods in generations for pod in pods]}], happenings
        groups = [
            group
            | {
                "consumer_group": f"{self.consumer_group}-{_pod_name(generation, number)}",
                "consumers": [pod],
                "lives_with_its_members": True,
            }
            for generation, pods in enumerate(generations)
            for number, pod in enumerate(pods)
        ]
        return groups, happenings

    def _consumer(self, number: int, generation: int) -> dict[str, Any]:
        host = f"10.{30 + generation}.{number // 250}.{number % 250 + 1}"
        instance = self.consumer_group if self.ids == "stable" else f"{4000 + number}#{81_200_000_000 + generation}"
        return {
            "name": f"{self.consumer_group}-{number}-{generation}",
            "client_id": f"{host}@{instance}",
            "host": host,
            "client_version": self.client_version,
            "running": generation == 0,
        }

    def _turn(self, number: int) -> int:
        return {"one_by_one": number, "quarters": 4 * number // self.pods, "surge": 0}[self.style]

    @property
    def seconds(self) -> float:
        return self._turn(self.pods - 1) * self.apart + self.down


POD_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def _pod_name(generation: int, number: int) -> str:
    """Return the template hash and five letters of a pod, as Kubernetes names the pods of a Deployment."""
    drawn = ""
    rest = 7_919 * (number + 1) + 104_729 * (generation + 1)
    for _ in range(5):
        rest, letter = divmod(rest * 31 + 17, len(POD_LETTERS))
        drawn += POD_LETTERS[letter]
    return f"{('6d8f9c7b54', '5b7c94d8f6')[generation]}-{drawn}"


class Scenario(Part):
    """A cluster, its clients, what happens to them, and the alerts that are due.

    Without `duration_seconds` the scenario has no end.
    """

    description: str = Field(default="", description="what happens, and which alerts are due")
    healthy: bool = Field(default=False, description="no page is due")
    cluster: Name
    duration_seconds: float | None = Field(default=None, gt=0)
    clock_interval_ms: int = Field(default=5000, ge=1)
    view: View = Field(default="model", description="default view of a run")
    jitter: float = Field(default=0, ge=0, description="maximum seconds by which a seed shifts all happenings")
    brokers: tuple[BrokerOrName, ...] = Field(min_length=1)
    topics: tuple[Topic, ...] = Field(min_length=1)
    groups: tuple[Group, ...] = ()
    producers: tuple[Producer, ...] = ()
    rollouts: tuple[Rollout, ...] = Field(default=(), description="rollouts that add groups and happenings")
    happenings: tuple[Happening, ...] = ()
    expects: tuple[dict[str, Any], ...] = Field(
        default=(), description="findings that must or may be reported: Expectation of tests/lab/score/expectations.py"
    )

    @model_validator(mode="after")
    def _check(self) -> "Scenario":
        brokers = [broker.broker_name for broker in self.brokers]
        topics = [topic.topic for topic in self.topics]
        groups = [group.consumer_group for group in self.groups]
        consumers = [consumer.name for group in self.groups for consumer in group.consumers]
        for what, names in {"brokers": brokers, "topics": topics, "groups": groups, "consumers": consumers}.items():
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise ValueError(f"{what}: duplicate {twice[0]!r}")
        for topic in self.topics:
            _check_known(f"topic {topic.topic!r}: broker_name", topic.broker_names or (), brokers)
        for group in self.groups:
            _check_known(f"group {group.consumer_group!r}: topic", group.subscriptions, topics)
            for consumer in group.consumers:
                of_consumer = (*(consumer.subscriptions or ()), *consumer.assigned_queues)
                _check_known(f"consumer {consumer.name!r}: topic", of_consumer, topics)
        for producer in self.producers:
            _check_known(f"producer {producer.client_id!r}: topic", producer.topics, topics)
        known = {"consumer": consumers, "broker_name": brokers, "topic": topics, "consumer_group": groups}
        for happening in self.happenings:
            where = f"action {happening.action!r} at {happening.at:g}"
            for field, choice in known.items():
                _check_known(f"{where}: {field}", [getattr(happening, field)], [None, *choice])
        return self


def _check_known(what: str, names: Iterable[str | None], known: Iterable[str | None]) -> None:
    choice = set(known)
    for name in names:
        if name not in choice:
            listed = ", ".join(sorted(item for item in choice if item is not None))
            raise ValueError(f"{what} {name!r} is not one of {listed or 'none'}")


def scenario_names() -> list[str]:
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """Load a scenario by name or from a TOML file. Raises ScenarioError."""
    path = Path(name_or_path)
    if str(name_or_path) in scenario_names():
        path = SCENARIOS / f"{name_or_path}.toml"
    elif not path.is_file():
        choice = ", ".join(scenario_names())
        raise ScenarioError(f"scenario {str(name_or_path)!r} is neither a file nor one of {choice}")
    try:
        return parse_scenario(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(f"scenario {str(name_or_path)!r} cannot be read: {error}") from None


def parse_scenario(fields: dict[str, Any]) -> Scenario:
    """Return the scenario of parsed TOML. Raises ScenarioError."""
    try:
        scenario = Scenario.model_validate(fields)
        if not scenario.rollouts:
            return scenario
        expanded = scenario.model_dump(exclude={"rollouts"})
        for rollout in scenario.rollouts:
            groups, happenings = rollout.expand()
            expanded["groups"] = [*expanded["groups"], *groups]
            expanded["happenings"] = [*expanded["happenings"], *happenings]
        return Scenario.model_validate(expanded)
    except ValidationError as error:
        raise ScenarioError("; ".join(_sentence(dict(fault)) for fault in error.errors())) from None


def _sentence(fault: dict[str, Any]) -> str:
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{key} is not a field of a scenario"
    if fault["type"] == "missing":
        return f"{key} is missing"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return f"{key}: {message}" if key else message
    return f"{key} = {fault['input']!r}: {message[:1].lower()}{message[1:]}"
