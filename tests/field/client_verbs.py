"""What is done to a client, and to what lies between it and the servers."""

import time

from tests.field.client import FieldClient
from tests.field.client_process import ClientError
from tests.field.links import EVERY
from tests.field.stage_parts import Stage, verb


def start_supervised(client: FieldClient) -> None:
    """As a supervisor does it: a JVM whose only client did not start is started anew, once. Raises ClientError.

    A client waits 3 s for its first route, and gives up on a machine that is too busy to answer.
    """
    try:
        client.start()
    except ClientError:
        if client.spec.process:
            raise
        client.kill()
        client.start()


@verb
def start(stage: Stage, to: str) -> None:
    """A client, for the first time or again."""
    start_supervised(stage.clients[to])


@verb
def stop(stage: Stage, to: str) -> None:
    """A client, in peace."""
    stage.clients[to].stop()


@verb
def restart(stage: Stage, to: str) -> None:
    """A client, in peace, as a roll-out does it."""
    stage.clients[to].stop()
    start_supervised(stage.clients[to])


@verb
def kill(stage: Stage, to: str) -> None:
    """SIGKILL a client's JVM."""
    stage.clients[to].kill()


@verb
def freeze(stage: Stage, to: str) -> None:
    """SIGSTOP a client's JVM."""
    stage.clients[to].freeze()


@verb
def thaw(stage: Stage, to: str) -> None:
    stage.clients[to].thaw()


@verb
def freeze_slices(stage: Stage, to: str, seconds: float, stopped_ms: int = 1_500, running_ms: int = 500) -> None:
    """A client's JVM stands and runs in turn for `seconds`: a machine that gives it little time."""
    client, deadline = stage.clients[to], time.monotonic() + seconds
    try:
        while True:
            client.freeze()
            time.sleep(stopped_ms / 1000)
            client.thaw()
            if time.monotonic() >= deadline or not client.is_alive():
                return
            time.sleep(running_ms / 1000)
    finally:
        client.thaw()


@verb
def gc(stage: Stage, to: str, seconds: float) -> None:
    """A client's JVM stops for so long."""
    stage.clients[to].command(f"gc {seconds}")


@verb
def hang(stage: Stage, to: str) -> None:
    """A client's listener, or its sending, blocks."""
    stage.clients[to].command("hang")


@verb
def unhang(stage: Stage, to: str) -> None:
    stage.clients[to].command("unhang")


@verb
def suspend(stage: Stage, to: str) -> None:
    """A consumer pulls no more."""
    stage.clients[to].command("suspend")


@verb
def resume(stage: Stage, to: str) -> None:
    stage.clients[to].command("resume")


@verb
def consume_ms(stage: Stage, to: str, ms: int) -> None:
    """A consumer's listener takes so long for each message."""
    stage.clients[to].command(f"consume_ms {ms}")


@verb
def rate_per_s(stage: Stage, to: str, rate: float) -> None:
    """A producer sends so many messages."""
    stage.clients[to].command(f"rate_per_s {rate}")


@verb
def subscribe(stage: Stage, to: str, topic: str, expression: str = "*") -> None:
    stage.clients[to].command(f"subscribe {topic} {expression}")


@verb
def unsubscribe(stage: Stage, to: str, topic: str) -> None:
    stage.clients[to].command(f"unsubscribe {topic}")


@verb
def cut(stage: Stage, to: str, broker: str) -> None:
    """Between a client and a server of FieldCluster.servers, "*" for all: connections reset, new ones refused."""
    stage.links.cut(_linked(stage, to), broker)


@verb
def blackhole(stage: Stage, to: str, broker: str) -> None:
    """Likewise: connections stay, nothing passes."""
    stage.links.blackhole(_linked(stage, to), broker)


@verb
def delay(stage: Stage, to: str, broker: str, ms: float) -> None:
    """Likewise: each direction takes so much longer."""
    stage.links.delay(_linked(stage, to), broker, ms)


@verb
def throttle(stage: Stage, to: str, broker: str, bytes_per_s: float) -> None:
    """Likewise: each direction of a connection passes so much."""
    stage.links.throttle(_linked(stage, to), broker, bytes_per_s)


@verb
def heal(stage: Stage, to: str, broker: str) -> None:
    """The end of what was done to these links."""
    stage.links.heal(_linked(stage, to), broker)


def _linked(stage: Stage, client: str) -> str:
    return EVERY if client == EVERY else stage.link_name(client)
