"""Wait until a service has read everything that Kafka has."""

import threading

from streaming.queries.running import Rest
from streaming.service.service import Service


def wait_until_idle(service: Service, seconds: float = 120.0) -> None:
    """Return when the query has read all messages, or after `seconds`. Meanwhile it does not rest after a batch."""
    running = service.running
    resting, running.sink._rest = running.sink._rest, Rest(0.0)
    thread = threading.Thread(target=running.query.processAllAvailable, daemon=True)
    thread.start()
    thread.join(seconds)
    running.sink._rest = resting
