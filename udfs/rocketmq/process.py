"""The process behind a channel, as far as its ClientId and address show it."""

import re

_PID = re.compile(r"(?P<stem>[^@]+@[0-9]+)(?:#[0-9]+|@[0-9]+@[0-9a-z]+)?(?:@.*)?")


def process_of(client_id: str, client_addr: str | None) -> str:
    """Return `stem at host` of the process that opened the channel; channels of one process return one value.

    MQClientManager builds one MQClientInstance, with one channel a broker, for each ClientId. Java clients before 4.9
    share it among all consumers of a JVM (`ip@pid`); later ones carry `ip@pid#nanoTime` (ClientConfig,
    changeInstanceNameToPID) and gRPC clients `host@pid@index@nanoTime`, an instance per consumer. The stem is the part
    up to the pid, and the whole ClientId where instanceName replaces the pid. The host of the address
    distinguishes containers that share `172.17.0.2@7`.
    """
    match = _PID.fullmatch(client_id)
    stem = match["stem"] if match else client_id
    host = (client_addr or "").rpartition(":")[0]
    return f"{stem} at {host}" if host else stem
