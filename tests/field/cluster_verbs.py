"""What is done to brokers, NameServers, topics, groups and queue locks, and to our own collector."""

from collections.abc import Sequence

from tests.field.links import EVERY
from tests.field.queue_locks import take_locks
from tests.field.stage_parts import Stage, verb


@verb
def broker_start(stage: Stage, to: str) -> None:
    stage.cluster.start_broker(to)


@verb
def broker_stop(stage: Stage, to: str) -> None:
    """In peace: it unregisters first."""
    stage.cluster.stop_broker(to)


@verb
def broker_kill(stage: Stage, to: str) -> None:
    stage.cluster.kill_broker(to)


@verb
def broker_freeze(stage: Stage, to: str) -> None:
    """SIGSTOP: NameServers keep it for 120 s."""
    stage.cluster.freeze_broker(to)


@verb
def broker_slow(stage: Stage, to: str, stopped_ms: int = 1_500, running_ms: int = 500) -> None:
    """It stands and runs in turn: sends take up to `stopped_ms`, MQFaultStrategy's first step is 550 ms."""
    stage.cluster.slow_broker(to, stopped_ms, running_ms)


@verb
def broker_thaw(stage: Stage, to: str) -> None:
    """The end of broker_freeze and broker_slow."""
    stage.cluster.thaw_broker(to)


@verb
def broker_delay(stage: Stage, to: str, ms: float) -> None:
    """All clients' links to it take so much longer each way; 0 ends it."""
    stage.links.delay(EVERY, to, ms)


@verb
def name_server_start(stage: Stage, to: int) -> None:
    stage.cluster.start_name_server(to)


@verb
def name_server_stop(stage: Stage, to: int) -> None:
    stage.cluster.stop_name_server(to)


@verb
def name_server_kill(stage: Stage, to: int) -> None:
    stage.cluster.kill_name_server(to)


@verb
def consume_enable(stage: Stage, group: str, enabled: bool, broker: str | None = None) -> None:
    """`mqadmin updateSubGroup -s`: whether the group's pulls are served."""
    stage.cluster.set_consume_enable(group, enabled, broker)


@verb
def topic(
    stage: Stage,
    topic: str,
    broker: str | None = None,
    read_queue_nums: int | None = None,
    write_queue_nums: int | None = None,
    perm: int | None = None,
) -> None:
    """`mqadmin updateTopic`, on one master or on every one; what is absent stays."""
    stage.cluster.alter_topic(
        topic, broker, read_queue_nums=read_queue_nums, write_queue_nums=write_queue_nums, perm=perm
    )


@verb
def create_topic(stage: Stage, topic: str, queues: int = 4) -> None:
    """On every master; also one that was deleted, whose offsets begin at 0 again."""
    stage.cluster.create_topic(topic, queues)


@verb
def delete_group(stage: Stage, group: str) -> None:
    stage.cluster.delete_group(group)


@verb
def delete_topic(stage: Stage, topic: str) -> None:
    stage.cluster.delete_topic(topic)


@verb
def lose_lock(stage: Stage, group: str, topic: str, broker: str, queue_ids: Sequence[int], seconds: float) -> None:
    """An orderly group's locks of these queues are a stranger's for `seconds`."""
    master = stage.cluster.brokers[broker]
    take_locks(master.address, master.broker_name, group, topic, queue_ids, seconds)


@verb
def collector_start(stage: Stage) -> None:
    stage.collector.start()


@verb
def collector_stop(stage: Stage) -> None:
    """SIGTERM."""
    stage.collector.stop()


@verb
def collector_kill(stage: Stage) -> None:
    """SIGKILL."""
    stage.collector.kill()


@verb
def collector_restart(stage: Stage, id: str = "") -> None:
    """`id`: under another `collector.id` from now on, as its replacement on another host."""
    stage.collector.restart({"BALANCEWATCH_COLLECTOR__ID": id} if id else {})
