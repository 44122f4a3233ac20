"""What is done to the modelled cluster, when, and for how long: one value a happening."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from streaming.simulator.parts import Name, Part, Seconds

ClientAction = Literal[
    "start", "stop", "crash", "kill", "freeze", "thaw", "reconnect",
    "cut_network", "keep_route", "stop_pulling", "hang_listener", "suspend",
    "slow_listener", "subscribe",
]  # fmt: skip
BrokerAction = Literal["slow_broker", "fail_broker", "stop_broker", "crash_broker", "lose_broker", "press_memory"]
ClusterAction = Literal["scale_topic", "set_perm", "disable_consume"]
ActionForGood = Literal["recreate_topic", "drop_topics", "burst", "rename_collector", "remove_agents"]

_NEEDS: dict[str, tuple[str, ...]] = {
    "slow_broker": ("broker_name", "until", "latency_ms"),
    "fail_broker": ("broker_name", "until"),
    "stop_broker": ("broker_name",),
    "crash_broker": ("broker_name",),
    "lose_broker": ("broker_name",),
    "press_memory": ("broker_name", "until"),
    "scale_topic": ("topic",),
    "set_perm": ("topic", "perm"),
    "disable_consume": ("consumer_group",),
    "recreate_topic": ("topic",),
    "drop_topics": ("broker_name",),
    "burst": ("topic", "messages"),
    "rename_collector": ("collector",),
    "remove_agents": (),
    "subscribe": ("consumer", "subscriptions"),
    "slow_listener": ("consumer", "consume_ms"),
}
LASTING = {
    "freeze", "cut_network", "keep_route", "stop_pulling", "hang_listener", "suspend", "slow_listener",
    "slow_broker", "fail_broker", "stop_broker", "crash_broker", "lose_broker", "press_memory",
    "scale_topic", "set_perm", "disable_consume",
}  # fmt: skip
"""What `until` ends again; without it they last for good."""
FOR_GOOD: tuple[str, ...] = get_args(ActionForGood)


class Happening(Part):
    """What is done to the cluster, `at` a time and again `every` so often.

    Up to keep_route a consumer's name stands for its process, with all its groups; below for that consumer alone.

    start, stop         a consumer process comes up; shuts down cleanly and leaves at once
    crash               it dies and its system closes the channels: it leaves at once, offsets not committed
    kill                its host is lost: nobody closes the channel, brokers expire it after 120 s
    freeze, thaw        SIGSTOP and SIGCONT: it keeps channel and queues and says nothing
    reconnect           its channels are replaced by new ones; the old ones fall silent and are not closed
    cut_network         nothing passes between it and `broker_name` (None: any broker)
    keep_route          it asks the NameServer no more and goes on with the routes it has
    stop_pulling        it pulls `queues` (None: all) no more, and its idle time never counts: a bug of the client
    hang_listener       its listener does not return: what it consumes is not committed, and no queue lock let go
    suspend             DefaultMQPushConsumer.suspend(): it makes pulls and sends none, nothing is consumed
    slow_listener       a queue's messages take `consume_ms` each: with a full cache it hardly pulls, and consumes
    subscribe           it subscribes `subscriptions` instead
    slow_broker         sends to a broker take `latency_ms` more
    fail_broker         sends to a broker end in `error`
    stop_broker         a broker shuts down cleanly: it leaves the NameServer and closes its channels
    crash_broker        its process dies: channels and NameServer know at once, offsets of the last 5 s are lost
    lose_broker         its host is lost: the NameServer drops it after 120 s
    press_memory        a broker's backlog is over 40 % of memory: it suggests its slave for pulls
    scale_topic         the topic has `queue_nums` queues on each broker from now on
    set_perm            the topic has `perm` at `broker_name` (None: at all)
    disable_consume     consumeEnable of the group is false: brokers refuse its pulls
    recreate_topic      the topic is deleted and created again at once; its offsets, and its groups', begin at 0
    drop_topics         a broker loses all topics; later rounds leave it out once it is down
    burst               the topic receives `messages` at once, spread over its writable queues
    rename_collector    a collector named `collector` replaces the one before: a reserve, or a new pod
    remove_agents       the brokers' agents, which report each heartbeat and pull, end; a collector's rounds continue
    """

    at: Seconds
    every: float | None = Field(default=None, gt=0)
    until: Seconds | None = None
    jitter: float = Field(default=0, ge=0, description="seconds later at most, by the seed, each time anew")
    action: ClientAction | BrokerAction | ClusterAction | ActionForGood
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
    subscriptions: tuple[Name, ...] | None = None

    @property
    def lasts_ms(self) -> int:
        """How long it lasts; 0 for a moment, or for good."""
        return int((self.until - self.at) * 1000) if self.until is not None else 0

    @model_validator(mode="after")
    def _check(self) -> "Happening":
        for field in _NEEDS.get(self.action, ("consumer",)):
            if getattr(self, field) is None:
                raise ValueError(f"action {self.action!r} needs {field}")
        if self.action == "scale_topic" and not (self.queue_nums or self.read_queue_nums or self.write_queue_nums):
            raise ValueError("action 'scale_topic' needs queue_nums")
        if self.until is not None and self.action not in LASTING:
            raise ValueError(f"action {self.action!r} has no until")
        if self.until is not None and self.until <= self.at:
            raise ValueError(f"until = {self.until:g} is not after at = {self.at:g}")
        if self.every is not None and self.until is not None and self.until - self.at + self.jitter >= self.every:
            raise ValueError(f"every = {self.every:g} begins again before until = {self.until:g}")
        return self
