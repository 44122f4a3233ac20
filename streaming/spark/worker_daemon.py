"""Spark's daemon of Python workers, whose sockets acknowledge at once (TCP_QUICKACK).

Spark sends a task in two writes without TCP_NODELAY. The second waits for the acknowledgement of the first, which the
kernel delays by up to 40 ms. SPARK-51667 sets TCP_NODELAY on the state server's socket only.
"""

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run one task as pyspark.daemon does. The kernel forgets the option, so each task sets it again."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    return _worker(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
